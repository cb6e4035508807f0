"""Real sections for the notebooks, small enough to train on in a minute; with sections of yours you need none of it.

They are of her2st (Andersson et al., Nature Communications 2021; Zenodo record 4751624, CC BY 4.0): of each section a
window of 9 x 9 places of its array, with its 2,000 strongest genes, the spots and the part of the image there.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import tifffile
from PIL import Image

DATA = Path(os.environ["GENAR_SHARED"]) / "data" / "her2st"
CACHE = Path(os.environ["GENAR_CACHE"])
MPP = 0.687  # of the images, µm per pixel
SIDE = 9
GENES = 2000
MARGIN = 200  # px around the spots
Image.MAX_IMAGE_PIXELS = None


def sections(*names: str) -> Path:
    """Write the sections as her2st lays them out, unless they are there, and return their sample sheet."""
    sheet = CACHE / "samples.csv"
    if not sheet.exists():
        for name in names:
            _section(name, CACHE / "her2st")
        table = pd.DataFrame({"path": "her2st", "section": names, "mpp": MPP, "patient": "C"})
        table.to_csv(sheet, index=False)
    return sheet


def _section(name: str, root: Path) -> None:
    counts, spots = root / f"ST-cnts/{name}.tsv.gz", root / f"ST-spotfiles/{name}_selection.tsv"
    image = root / f"ST-imgs/C/{name}/{name}.tif"
    for path in (counts, spots, image):
        path.parent.mkdir(parents=True, exist_ok=True)
    table = pd.read_csv(DATA / "ST-spotfiles" / spots.name, sep="\t")
    x, y = (table[axis] - round(table[axis].median()) + SIDE // 2 for axis in "xy")
    table = table[x.between(0, SIDE - 1) & y.between(0, SIDE - 1)]
    left, top = (int(table[f"pixel_{axis}"].min()) - MARGIN for axis in "xy")
    right, bottom = (int(table[f"pixel_{axis}"].max()) + MARGIN for axis in "xy")
    with Image.open(next(DATA.glob(f"ST-imgs/C/{name}/*.jpg"))) as picture:
        window = np.asarray(picture.crop((left, top, right, bottom)))
    resolution = {"resolution": (1e4 / MPP, 1e4 / MPP), "resolutionunit": "CENTIMETER"}
    options = {"tile": (256, 256), "photometric": "rgb", "compression": "jpeg", "metadata": None}
    tifffile.imwrite(image, window, **options, **resolution)
    table.assign(pixel_x=table["pixel_x"] - left, pixel_y=table["pixel_y"] - top).to_csv(spots, sep="\t", index=False)
    measured = pd.read_csv(DATA / "ST-cnts" / counts.name, sep="\t", index_col=0)
    names = table["x"].astype(str) + "x" + table["y"].astype(str)
    measured = measured[measured.index.isin(names)]
    measured[sorted(measured.sum().nlargest(GENES).index)].to_csv(counts, sep="\t")
