"""A small picture of a section: the slide, and the total counts over it."""

import numpy as np
from matplotlib import colormaps
from PIL import Image, ImageDraw

from genar.write.report.pack import pack_picture
from genar.write.report.section import Shown
from genar.write.report.spots import total_counts

SIDE = 320  # px
FINER = 2  # times as large as it is drawn, for smooth edges
OPACITY = 200  # of 255


def thumbnail(section: Shown) -> str:
    """Return a JPEG as a data URL."""
    scale = FINER * SIDE / max(section.image.size)
    size = tuple(max(1, round(side * scale)) for side in section.image.size)
    picture = section.image.resize((size[0], size[1]), Image.Resampling.BILINEAR).convert("RGB")
    values = total_counts(section)
    low, high = float(values.min()), float(np.quantile(values, 0.99))
    shares = np.clip((values - low) / max(high - low, 1.0), 0, 1)
    colours = np.rint(colormaps["viridis"](shares) * 255).astype(int)
    draw, radius = ImageDraw.Draw(picture, "RGBA"), max(1.0, section.diameter * scale / 2)
    for (x, y), (red, green, blue, _) in zip(section.xy * scale, colours, strict=True):
        box = (x - radius, y - radius, x + radius, y + radius)
        draw.ellipse(box, fill=(int(red), int(green), int(blue), OPACITY))
    picture.thumbnail((SIDE, SIDE))
    return pack_picture(picture, quality=80)
