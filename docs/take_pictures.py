"""Take the pictures of output that the documentation shows: ``python docs/take_pictures.py`` writes ``docs/images``.

The demo's slide and section C4 of her2st are predicted by the bundled model (which was trained on C4). The page is
opened in Chromium, through Playwright.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

from genar.jobs.options import Options
from genar.jobs.predict_file import Written, predict_to_file

IMAGES = Path(__file__).parent / "images"
DATA = Path(__file__).parents[2] / "shared/data"
CHROMIUM = "/usr/bin/chromium"
WIDTH = {"demo": 1400, "report": 1093}  # pixels


def predicted(slide: Path, folder: Path, mpp: float | None = None) -> Written:
    """Predict a slide, with its picture and its page."""
    return predict_to_file(slide, folder, Options(mpp=mpp, report=True), progress=True)


def photograph(page: Path, picture: Path) -> None:
    """Open a page, choose a gene, point at a spot."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        tab = browser.new_page(viewport={"width": 1366, "height": 768})
        tab.goto(page.as_uri())
        tab.get_by_label("Gene", exact=True).fill("ERBB2")
        tab.keyboard.press("Enter")
        tab.locator("#slide").hover(position={"x": 405, "y": 300})
        tab.wait_for_timeout(500)
        tab.screenshot(path=picture)
        browser.close()


def save(name: str, picture: Path) -> None:
    """Store a picture at the width of the documentation."""
    with Image.open(picture) as image:
        size = (WIDTH[name], round(WIDTH[name] * image.height / image.width))
        image.convert("RGB").resize(size, Image.Resampling.LANCZOS).save(IMAGES / f"{name}.jpg", quality=88)


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        save("demo", predicted(DATA / "wsi/CMU-1-Small-Region.svs", Path(made)).picture)
        section = predicted(next(DATA.glob("her2st/ST-imgs/C/C4/*.jpg")), Path(made), mpp=0.687)
        photograph(section.table.with_suffix(".html"), Path(made, "report.png"))
        save("report", Path(made, "report.png"))
