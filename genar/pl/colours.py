"""The palette of Okabe and Ito (2008), which colour-blind readers tell apart."""

BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000",
)  # fmt: skip
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK)
