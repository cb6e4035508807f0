"""What scanners, glass and people do to slides, put onto pictures of real tissue."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import draw, morphology

Light = NDArray[np.float64]  # share of the light that comes through, [h, w, 3]
Mask = NDArray[np.bool_]  # [h, w]

INKS = {  # share of the light that comes through
    "blue": (0.12, 0.22, 0.62),
    "green": (0.12, 0.48, 0.30),
    "red": (0.78, 0.12, 0.16),
    "black": (0.10, 0.10, 0.11),
}


class Scene:
    """A picture of tissue, and where its tissue is known to be.

    Parameters
    ----------
    image
        RGB, uint8 [h, w, 3].
    tissue
        Where it shows tissue, bool [h, w].
    um
        µm a pixel.
    """

    def __init__(self, image: NDArray[np.uint8], tissue: Mask, um: float) -> None:
        self.light: Light = (image / 255).astype(np.float64)
        self.tissue = tissue.copy()
        self.ignored = np.zeros_like(tissue)  # where either answer will do: tissue that is hidden
        self.um = um
        self.random = np.random.default_rng(0)
        away = ndimage.binary_dilation(tissue, iterations=max(1, round(60 / um)))
        self.glass = np.median(self.light[~away], axis=0) if (~away).any() else np.ones(3)
        y, x = np.nonzero(tissue)
        self.middle = (float(y.mean()), float(x.mean()))

    @property
    def image(self) -> NDArray[np.uint8]:
        """The picture, RGB uint8 [h, w, 3], with a little noise as every scan has."""
        noisy = self.light * 255 + self.random.normal(0, 1.0, self.light.shape)
        return noisy.round().clip(0, 255).astype(np.uint8)

    def grain(self, um: float) -> NDArray[np.float64]:
        """Make smooth random values of standard deviation 1, [h, w], whose features are some ``um`` wide."""
        values = ndimage.gaussian_filter(self.random.normal(size=self.tissue.shape), max(um / self.um / 2, 0.5))
        return np.asarray(values / values.std())

    def ink(self, stroke: Mask, colour: tuple[float, float, float]) -> None:
        """Lay ink over the slide, uneven and with soft edges as pens leave it; tissue below it may be either."""
        soft = ndimage.gaussian_filter(stroke.astype(float), 8 / self.um)
        thickness = soft * (1 + 0.12 * self.grain(150)).clip(0.6, 1.4)
        self.light *= np.asarray(colour) ** thickness[..., None]
        self.ignored |= (soft > 0.02) & self.tissue

    def line(self, points: list[tuple[float, float]], width_um: float) -> Mask:
        """Return where a stroke runs through points given as shares of the height and the width."""
        height, width = self.tissue.shape
        where = np.zeros((height, width), dtype=bool)
        for (y0, x0), (y1, x1) in zip(points[:-1], points[1:], strict=True):
            start, end = (y0 * (height - 1), x0 * (width - 1)), (y1 * (height - 1), x1 * (width - 1))
            where[draw.line(*(round(at) for at in start + end))] = True
        return np.asarray(ndimage.distance_transform_edt(~where) < width_um / self.um / 2)

    def ring(self, inner_um: float, outer_um: float) -> Mask:
        """Return where the distance from the tissue is between two, in µm."""
        away = ndimage.distance_transform_edt(~self.tissue) * self.um
        return (away > inner_um) & (away < outer_um)

    def size(self) -> float:
        """Return the shorter side in µm."""
        return min(self.tissue.shape) * self.um


def _pen(kind: str, colour: str) -> Callable[[Scene], None]:
    """Make a disturbance by pen: scribbled beside the tissue, drawn around it, or across it."""

    def scribble(scene: Scene) -> None:
        wide = min(500.0, scene.size() / 12)
        points = [(0.04, 0.05), (0.10, 0.3), (0.03, 0.5), (0.12, 0.75), (0.05, 0.95), (0.5, 0.96), (0.9, 0.93)]
        scene.ink(scene.line(points, wide) & ~ndimage.binary_dilation(scene.tissue, iterations=10), INKS[colour])

    def around(scene: Scene) -> None:
        step = min(250.0, scene.size() / 20)
        scene.ink(scene.ring(step, 2.6 * step), INKS[colour])

    def touching(scene: Scene) -> None:
        scene.ink(scene.ring(0, min(400.0, scene.size() / 15)), INKS[colour])

    def across(scene: Scene) -> None:
        y, x = (m / s for m, s in zip(scene.middle, scene.tissue.shape, strict=True))
        scene.ink(
            scene.line([(0.02, max(x - 0.3, 0)), (y, x), (0.98, min(x + 0.3, 1))], scene.size() / 15), INKS[colour]
        )

    return {"beside": scribble, "around": around, "touching": touching, "across": across}[kind]


def _tint(*colour: float) -> Callable[[Scene], None]:
    """Make everything seen through coloured or dim glass."""

    def apply(scene: Scene) -> None:
        scene.light *= colour

    return apply


def _uneven(scene: Scene) -> None:
    height, width = scene.tissue.shape
    y, x = np.mgrid[:height, :width]
    scene.light *= (0.6 + 0.2 * y / height + 0.2 * x / width)[..., None]


def _tiles(scene: Scene) -> None:
    height, width = scene.tissue.shape
    y, x = np.mgrid[:height, :width] * scene.um % 400 / 400 - 0.5
    scene.light *= (1 - 0.3 * (x**2 + y**2))[..., None]


def _haze(scene: Scene) -> None:
    away = ndimage.distance_transform_edt(~scene.tissue) * scene.um
    scene.light *= np.array([0.97, 0.72, 0.86]) ** np.exp(-away / 400)[..., None]


def _frame(level: float) -> Callable[[Scene], None]:
    """Put a border around the scan, as where nothing was scanned."""

    def apply(scene: Scene) -> None:
        height, width = scene.tissue.shape
        y, x = height // 14, width // 14
        outside = np.ones((height, width), dtype=bool)
        outside[y:-y, x:-x] = False
        outside[: 2 * y, : width // 3] = True
        scene.light[outside] = level
        scene.tissue &= ~outside

    return apply


def _coverslip(scene: Scene) -> None:
    for points in ([(0.05, 0.0), (0.07, 1.0)], [(0.0, 0.95), (1.0, 0.97)]):
        edge = ndimage.gaussian_filter(scene.line(points, 50).astype(float), 6 / scene.um)
        scene.light *= (1 - 0.65 * edge)[..., None]
        glint = ndimage.gaussian_filter(np.roll(edge, round(60 / scene.um), 0), 4 / scene.um)
        scene.light = np.clip(scene.light * (1 + 0.15 * glint[..., None]), 0, 1)
        scene.ignored |= (edge > 0.05) & scene.tissue
    height, width = scene.tissue.shape
    y, x = np.mgrid[:height, :width]
    scene.light[(y < 0.05 * height + 0.02 * height * x / width)] *= 0.85


def _bubble(scene: Scene) -> None:
    height, width = scene.tissue.shape
    y, x = np.mgrid[:height, :width].astype(float) * scene.um
    for cy, cx in ((0.12, 0.15), (0.85, 0.85)):
        away = np.hypot(y - cy * height * scene.um, x - cx * width * scene.um) - scene.size() / 14
        rim = np.exp(-0.5 * (away / 15) ** 2)
        scene.light *= (1 - 0.75 * rim)[..., None]
        scene.ignored |= (rim > 0.05) & scene.tissue


def _dust(scene: Scene) -> None:
    height, width = scene.tissue.shape
    for y, x in scene.random.uniform(0.02, 0.98, (60, 2)):
        at, radius = (y * height, x * width), scene.random.uniform(8, 25) / scene.um
        scene.light[draw.disk(at, radius, shape=scene.tissue.shape)] *= 0.25
    for _ in range(4):
        ends = scene.random.uniform(0.03, 0.97, (3, 2)).tolist()
        fibre = ndimage.gaussian_filter(scene.line([tuple(e) for e in ends], 15).astype(float), 3 / scene.um)
        scene.light *= np.array([0.4, 0.5, 0.75]) ** fibre[..., None]


def _fiducials(scene: Scene) -> None:
    height, width = scene.tissue.shape
    y, x = np.mgrid[:height, :width] * scene.um
    high, wide = height * scene.um, width * scene.um
    for at in np.arange(120, max(high, wide), 270):
        for cy, cx in ((at, 120), (at, wide - 120), (120, at), (high - 120, at)):
            if cy < high - 60 and cx < wide - 60:
                away = np.abs(np.hypot(y - cy, x - cx) - 40)
                scene.light *= (1 - 0.5 * np.exp(-0.5 * (away / 10) ** 2))[..., None]


def _faint(scene: Scene) -> None:
    scene.light = scene.glass * (scene.light / scene.glass).clip(0.01, 1.2) ** np.where(scene.tissue, 0.3, 1)[..., None]


def _fat(scene: Scene) -> None:
    """Turn half of the tissue to fat: clear cells of 70 µm between thin walls."""
    height, width = scene.tissue.shape
    half = scene.tissue & (np.mgrid[:height, :width][1] > scene.middle[1])
    number = int(height * width * scene.um**2 / 70**2)
    seeds = np.zeros((height, width), dtype=bool)
    seeds[scene.random.integers(0, height, number), scene.random.integers(0, width, number)] = True
    _, (iy, ix) = ndimage.distance_transform_edt(~seeds, return_indices=True)
    cell = iy * width + ix
    wall = (cell != np.roll(cell, 1, 0)) | (cell != np.roll(cell, 1, 1))
    wall = ndimage.gaussian_filter(wall.astype(float), 2 / scene.um) * (1 + 0.3 * scene.grain(100))
    walls = scene.glass * np.array([0.72, 0.45, 0.62]) ** wall.clip(0)[..., None]
    scene.light = np.where(half[..., None], walls, scene.light)


def _blur(sigma_um: float) -> Callable[[Scene], None]:
    """Put the right part of the slide out of focus."""

    def apply(scene: Scene) -> None:
        size = sigma_um / scene.um
        blurred = ndimage.gaussian_filter(scene.light, (size, size, 0))
        _, width = scene.tissue.shape
        share = ((np.arange(width) - scene.middle[1]) * scene.um / 100).clip(0, 1)[None, :, None]
        scene.light = scene.light * (1 - share) + blurred * share

    return apply


def _holes(scene: Scene) -> None:
    height, width = scene.tissue.shape
    y, x = np.mgrid[:height, :width]
    radius = min(250.0, scene.size() / 10)
    inner = np.argwhere(ndimage.distance_transform_edt(scene.tissue) * scene.um > 1.3 * radius)
    for cy, cx in scene.random.permutation(inner)[:3] if len(inner) else []:
        hole = np.hypot(y - cy, x - cx) * scene.um < radius
        scene.light[hole] = scene.glass
        scene.tissue &= ~hole


def _pieces(scene: Scene) -> None:
    """Cut the tissue into pieces, 120 µm of glass between them."""
    cut = scene.line([(0.0, 0.35), (1.0, 0.65)], 120) | scene.line([(0.75, 0.0), (0.35, 1.0)], 120)
    scene.light[cut] = scene.glass
    scene.tissue = morphology.remove_small_objects(scene.tissue & ~cut, max_size=round(20_000 / scene.um**2))


def _jpeg(scene: Scene) -> None:
    """Make the eight-pixel blocks of strong compression, coarsely: each block's faint detail is lost."""
    from io import BytesIO

    from PIL import Image

    file = BytesIO()
    Image.fromarray(scene.image).save(file, "JPEG", quality=15)
    scene.light = np.asarray(Image.open(file), dtype=np.float64) / 255


def _stain(haematoxylin: float, eosin: float) -> Callable[[Scene], None]:
    """Change how strongly the tissue is stained."""
    from skimage.color import hed_from_rgb, rgb_from_hed

    def apply(scene: Scene) -> None:
        density = -np.log((scene.light / scene.glass).clip(0.004, 1))
        stains = density @ hed_from_rgb * [haematoxylin, eosin, 1]
        scene.light = scene.glass * np.exp(-(stains @ rgb_from_hed).clip(0))

    return apply


DISTURBANCES: dict[str, Callable[[Scene], None]] = {
    "as it is": lambda _: None,
    **{
        f"{colour} pen {kind}": _pen(kind, colour)
        for kind in ("beside", "around", "touching", "across")
        for colour in INKS
    },
    "pink glass": _tint(0.97, 0.78, 0.90),
    "yellow glass": _tint(0.95, 0.88, 0.65),
    "blue glass": _tint(0.78, 0.85, 0.97),
    "grey glass": _tint(0.7, 0.7, 0.7),
    "dark glass": _tint(0.4, 0.38, 0.42),
    "uneven light": _uneven,
    "shading of scan tiles": _tiles,
    "haze of eosin": _haze,
    "black border": _frame(0.0),
    "white border": _frame(1.0),
    "edge of the coverslip": _coverslip,
    "air bubbles": _bubble,
    "dust and fibres": _dust,
    "fiducial marks": _fiducials,
    "faint stain": _faint,
    "half is fat": _fat,
    "half blurred by 5 µm": _blur(5),
    "half blurred by 15 µm": _blur(15),
    "half blurred by 30 µm": _blur(30),
    "holes": _holes,
    "several pieces": _pieces,
    "strong compression": _jpeg,
    "mostly haematoxylin": _stain(1.0, 0.2),
    "mostly eosin": _stain(0.25, 1.0),
}
