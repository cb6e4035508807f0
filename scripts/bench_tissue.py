"""How well tissue and blur are found on real slides that are disturbed as pens, scanners and stains do.

Each slide is reduced to some 8 µm a pixel (small ones to 4), disturbed, and its tissue found again. A figure is the
overlap (intersection over union) with the tissue of the slide as it is; hidden tissue, as below ink, does not count.

``python scripts/bench_tissue.py slide.svs section.jpg=0.687`` (a resolution after "=", where the file has none)
"""

import argparse
import time
from pathlib import Path

import numpy as np
from disturb import DISTURBANCES, Scene
from PIL import Image
from scipy import ndimage

from genar.slide.focus import blur_um, in_focus
from genar.slide.lattice import VISIUM, lay
from genar.slide.open import Slide, open_slide
from genar.slide.tissue import find_tissue, tissue_mask

BLURS_UM = (0, 1, 2, 3, 4, 6, 10, 20)


def scene_of(slide: Slide) -> tuple[np.ndarray, np.ndarray, float]:
    """Reduce a slide to a picture, its tissue, and µm a pixel: what a :class:`disturb.Scene` is made of."""
    side_um = max(slide.dimensions) * slide.mpp
    image = slide.thumbnail(round(side_um / (8 if side_um > 4000 else 4)))
    return image, tissue_mask(slide).resized(image.shape[:2]), slide.dimensions[0] * slide.mpp / image.shape[1]


def coarse(image: np.ndarray, um: float) -> tuple[np.ndarray, float]:
    """Reduce a picture to some 8 µm a pixel, which is what :func:`genar.slide.tissue.tissue_mask` looks at."""
    step = max(1, round(8 / um))
    return np.asarray(Image.fromarray(image).reduce(step)), um * step


def overlap(scene: Scene) -> float:
    """Return the overlap of the tissue that is found with the tissue that is there."""
    mask = find_tissue(*coarse(scene.image, scene.um))
    height, width = scene.tissue.shape
    found = np.asarray(Image.fromarray(mask).resize((width, height), Image.Resampling.NEAREST))
    counted = ~scene.ignored
    return (found & scene.tissue & counted).sum() / max(((found | scene.tissue) & counted).sum(), 1)


def blurred(slide: Slide, folder: Path) -> list[str]:
    """Blur the middle of a slide, and return the share of its spots that is flagged for each blur."""
    side = round(1200 / slide.mpp)
    low = [max((size - side) // 2, 0) for size in slide.dimensions]
    crop = slide.read(*low, *(min(side, size) for size in slide.dimensions))
    row = []
    for blur in BLURS_UM:
        image = ndimage.gaussian_filter(crop, (blur / slide.mpp, blur / slide.mpp, 0))
        path = folder / f"blur{blur}.png"
        Image.fromarray(image).save(path)
        with open_slide(path, slide.mpp) as one:
            xy = lay(VISIUM, *(size * one.mpp for size in one.dimensions))[0] / one.mpp
            on = tissue_mask(one).fraction(xy, 154 / one.mpp) >= 0.9
            row.append(f"{1 - in_focus(blur_um(one, xy[on])).mean():.0%}" if on.any() else "-")
    return row


def main() -> None:
    """Print two tables in Markdown: of tissue and of blur."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slides", nargs="+", metavar="SLIDE[=MPP]")
    paths = [text.partition("=") for text in parser.parse_args().slides]
    slides = [open_slide(path, float(mpp) if mpp else None) for path, _, mpp in paths]
    names = [slide.path.stem[:20] for slide in slides]
    bases = [scene_of(slide) for slide in slides]
    print(f"| overlap | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for name, disturb in DISTURBANCES.items():
        row = []
        for base in bases:
            scene = Scene(*base)
            disturb(scene)
            row.append(f"{overlap(scene):.2f}")
        print(f"| {name} | {' | '.join(row)} |", flush=True)
    print(
        f"\n| flagged at a blur of | {' | '.join(f'{blur} µm' for blur in BLURS_UM)} |\n|---|{'---|' * len(BLURS_UM)}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, slide in zip(names, slides, strict=True):
            print(f"| {name} | {' | '.join(blurred(slide, Path(folder)))} |", flush=True)
    print("\n| seconds | tissue | spots | blur of the spots |\n|---|---|---|---|")
    for name, slide in zip(names, slides, strict=True):
        start = time.process_time()
        mask = tissue_mask(slide)
        middle = time.process_time()
        xy = lay(VISIUM, *(size * slide.mpp for size in slide.dimensions))[0] / slide.mpp
        xy = xy[mask.fraction(xy, 154 / slide.mpp) >= 0.5]
        blur_um(slide, xy)
        print(f"| {name} | {middle - start:.2f} | {len(xy)} | {time.process_time() - middle:.2f} |")


if __name__ == "__main__":
    main()
