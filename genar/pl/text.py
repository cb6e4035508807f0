"""Names that a title can hold."""

from matplotlib.font_manager import FontProperties, findfont, get_font


def short(text: str, length: int) -> str:
    """Cut a text to a number of characters."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def drawable(text: str) -> str:
    """Put "?" for what the font lacks, for example Chinese in matplotlib's default one, instead of a warning."""
    font = get_font(findfont(FontProperties()))
    return "".join(c if c.isprintable() and font.get_char_index(ord(c)) else "?" for c in text)
