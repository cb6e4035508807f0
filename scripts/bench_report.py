"""How large a page of a whole slide is, and how fast it answers: 10,000 spots x 200 genes in headless Chromium.

    python scripts/bench_report.py [--spots 10000] [--genes 200]

Needs playwright and /usr/bin/chromium. The counts follow a smooth map, as those of tissue do; the picture is noise on
tissue's colours, which JPEG compresses worse than tissue.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData
from playwright.sync_api import Page, sync_playwright
from scipy import ndimage

from genar import keys
from genar.slide.lattice import lattice
from genar.slide.section import bare, describe
from genar.write.anndata import result
from genar.write.report import report

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
SWITCH = """async () => {
  const times = [];
  for (const button of document.querySelectorAll("#multiples button")) {
    const name = button.querySelector("span").textContent;
    const start = performance.now();
    button.click();
    while (document.body.dataset.shown !== `${name} counts`) await new Promise((done) => setTimeout(done));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - start);
  }
  return times;
}"""


def big(n_spots: int, n_genes: int) -> AnnData:
    """Make a predicted slide of a square lattice of 100 µm."""
    random = np.random.default_rng(0)
    side = int(np.ceil(np.sqrt(n_spots)))
    row, column = (a.ravel()[:n_spots] for a in np.mgrid[:side, :side])
    obs = pd.DataFrame({keys.IN_TISSUE: 1, keys.ARRAY_ROW: row, keys.ARRAY_COL: column},
                       index=[f"{r}x{c}" for r, c in zip(row, column, strict=True)])  # fmt: skip
    obs[keys.TISSUE_FRACTION] = random.random(n_spots)
    spots = bare(np.column_stack([column, row]) * 200.0 + 100, obs)
    texture = ndimage.gaussian_filter(random.normal(0, 1, (2000, 2000, 3)), (1.5, 1.5, 0)) * 120
    hires = (np.array([190, 140, 180]) + texture).clip(0, 255).astype(np.uint8)
    size = (side * 200, side * 200)
    describe(spots, lattice("visium"), "big", images=(hires, hires[::4, ::4]), size=size, mpp=0.5, mpp_source="test",
             slide_name="big.svs")  # fmt: skip
    maps = ndimage.gaussian_filter(random.normal(0, 1, (n_genes, side, side)), (0, 3, 3)) * 10
    expected = (np.exp(maps) * random.lognormal(1, 1.5, (n_genes, 1, 1))).reshape(n_genes, -1)[:, :n_spots].T
    layers = {keys.EXPECTED: expected.astype(np.float32), keys.STD: np.sqrt(expected + 0.1 * expected**2)}
    panel = pd.DataFrame({keys.HELDOUT_PCC: random.random(n_genes)}, index=[f"GENE{k}" for k in range(n_genes)])
    counts = random.poisson(expected)
    ood = random.random(n_spots).astype(np.float32) * 100
    return result(spots, panel=panel, counts=counts, layers=layers, provenance={"model": "bench"}, ood=ood)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spots", type=int, default=10_000)
    parser.add_argument("--genes", type=int, default=200)
    args = parser.parse_args()
    adata = big(args.spots, args.genes)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        path = report(adata, Path(folder) / "big.html")
        print(f"written in          {time.perf_counter() - start:.1f} s")
        print(f"size                {path.stat().st_size / 1e6:.2f} MB")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            measure(browser.new_page(viewport={"width": 1366, "height": 768}), path)
            browser.close()


def measure(page: Page, path: Path) -> None:
    """Print what the browser takes."""
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-complete]")
    print(f"first picture after {page.evaluate('document.body.dataset.ready')} ms")
    times = np.array(page.evaluate(SWITCH))
    print(f"switch of gene      {np.median(times):.0f} ms median, {times.max():.0f} ms at most, of {len(times)}")


if __name__ == "__main__":
    main()
