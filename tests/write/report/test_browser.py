"""The page in a real browser: what it shows, by keyboard and by mouse, and that it asks no one."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from anndata import AnnData
from playwright.sync_api import Browser, Page, expect, sync_playwright

import genar
from genar import keys
from tests.write.report.conftest import SHAPE, section

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        reason = f"there is no {CHROMIUM} (Debian's package chromium)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


class Opened:
    """A page that is open, and what went wrong in it."""

    def __init__(self, browser: Browser, path: Path) -> None:
        self.page: Page = browser.new_page(viewport={"width": 1366, "height": 768})
        self.faults: list[str] = []
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: None if request.url == path.as_uri() else self.asked(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-complete]", timeout=20_000)

    def asked(self, url: str) -> None:
        if not url.startswith("data:"):
            self.faults.append(f"asked for {url}")

    def spot(self) -> dict[str, str]:
        """Read what is said of the spot."""
        cells = self.page.locator("#spot-facts dd[data-key]").all()
        return {str(cell.get_attribute("data-key")): str(cell.text_content()) for cell in cells}

    def pick(self, name: str) -> None:
        """Type a gene's name."""
        self.page.locator("#gene").fill(name)
        self.page.keyboard.press("Enter")
        expect(self.page.locator("body")).to_have_attribute("data-shown", f"{name} counts")

    def picture(self) -> str:
        """Read the slide's pixels."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return str(self.page.evaluate("document.getElementById('slide').toDataURL()"))


@pytest.fixture(scope="module")
def adata() -> AnnData:
    return section()


@pytest.fixture(scope="module")
def path(adata: AnnData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return genar.report(adata, tmp_path_factory.mktemp("report") / "a.html")


@pytest.fixture
def opened(browser: Browser, path: Path) -> Iterator[Opened]:
    made = Opened(browser, path)
    yield made
    made.page.close()
    assert made.faults == []


def as_said(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{float(f'{value:.3g}'):g}"


def test_a_gene_that_is_typed_and_the_spot_under_the_pointer(opened: Opened, adata: AnnData) -> None:
    opened.page.locator("#gene").click()
    opened.page.keyboard.type("ene1")
    names = opened.page.locator("#genes [role=option] span").all_text_contents()
    assert sorted(names) == sorted(name for name in adata.var_names if "ENE1" in name)
    opened.pick("GENE12")
    box = opened.page.locator("#slide").bounding_box()
    row, column = SHAPE[0] // 2, 2
    xy = adata.obsm[keys.SPATIAL]
    middle = (xy.min(axis=0) + xy.max(axis=0)) / 2
    px_per_px = opened.page.evaluate("document.getElementById('slide').clientHeight - 86") / (
        np.ptp(xy[:, 1]) + 1.5 * 110)  # fmt: skip
    at = (np.array([column, row]) * 200 + 300 - middle) * px_per_px
    opened.page.mouse.move(box["x"] + box["width"] / 2 + at[0], box["y"] + 46 + (box["height"] - 86) / 2 + at[1])
    said, spot, gene = opened.spot(), f"{row}x{column}", adata.var_names.get_loc("GENE12")
    here = adata.obs_names.get_loc(spot)
    assert said["name"] == spot
    assert said["array"] == f"{row}, {column}"
    assert said["counts"] == as_said(adata.X[here, gene])
    for layer in (keys.EXPECTED, keys.STD):
        assert float(said[layer]) == pytest.approx(adata.layers[layer][here, gene], rel=0.006)
    assert said[keys.TOTAL_COUNTS] == as_said(adata.obs[keys.TOTAL_COUNTS].iloc[here])
    assert said[keys.OOD] == as_said(adata.obs[keys.OOD].iloc[here])
    assert "✓ Reliable" in opened.page.locator("#gene-facts").inner_text()
    assert opened.page.locator("#legend-title").inner_text() == "GENE12, counts"


def test_the_keyboard_alone_does_it_all(opened: Opened, adata: AnnData) -> None:
    keyboard, page = opened.page.keyboard, opened.page

    def tab_to(name: str) -> None:
        for _ in range(30):
            keyboard.press("Tab")
            if page.evaluate("document.activeElement.id || document.activeElement.value") == name:
                return
        pytest.fail(f"{name} is not reached")

    tab_to("gene")
    keyboard.type("GENE5")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowUp")
    keyboard.press("Enter")
    expect(page.locator("body")).to_have_attribute("data-shown", "GENE5 counts")
    assert "⚠ Not reliable" in page.locator("#gene-facts").inner_text()
    tab_to("counts")
    keyboard.press("ArrowRight")
    expect(page.locator("body")).to_have_attribute("data-shown", "GENE5 expected")
    tab_to("slide")
    keyboard.press("ArrowRight")
    first = opened.spot()["name"]
    keyboard.press("ArrowDown")
    keyboard.press("ArrowRight")
    row, column = map(int, first.split("x"))
    assert opened.spot()["name"] == f"{row + 1}x{column + 1}"
    count = adata[f"{row + 1}x{column + 1}", "GENE5"].X.toarray().item()
    assert f"GENE5: counts {count}" in page.locator("#spoken").text_content()
    before = opened.picture()
    for key in ("+", "Shift+ArrowLeft", "h"):
        keyboard.press(key)
        assert (after := opened.picture()) != before
        before = after
    keyboard.press("h")
    keyboard.press("0")
    keyboard.press("Escape")
    assert opened.spot() == {}
    assert page.locator("#no-spot").is_visible()


def test_views_ranges_and_colours(opened: Opened, adata: AnnData) -> None:
    page = opened.page
    opened.pick("GENE12")
    values = adata[:, "GENE12"].X.toarray().ravel()
    limits = [page.locator(f"#{name}").input_value() for name in ("low", "high")]
    assert limits == [f"{values.min():.4g}", f"{np.quantile(values, 0.99):.4g}"]
    page.locator("#range-full").click()
    assert page.locator("#high").input_value() == f"{values.max():.4g}"
    seen = {opened.picture()}
    for choose in (
        lambda: page.locator("#high").fill("90"),
        lambda: page.locator("#palette").select_option("magma"),
        lambda: page.locator("#opacity").fill("40"),
        lambda: page.locator("#large").check(),
        lambda: page.get_by_text("SD", exact=True).click(),
        lambda: page.locator("#view").select_option(keys.OOD),
        lambda: page.locator("#zoom-in").click(),
    ):
        choose()
        page.locator("h1").click()  # which ends what is typed
        page.wait_for_timeout(20)
        seen.add(opened.picture())
    assert len(seen) == 8
    assert [page.locator(f"#{name}").input_value() for name in ("low", "high")] == ["0", "100"]
    assert not page.locator("#of-gene").is_visible()


def test_the_small_multiples_are_buttons(opened: Opened) -> None:
    buttons = opened.page.locator("#multiples button")
    expect(buttons).to_have_count(12)
    name = buttons.nth(3).locator("span").text_content()
    opened.page.locator("#view").select_option(keys.TOTAL_COUNTS)
    buttons.nth(3).click()
    expect(opened.page.locator("body")).to_have_attribute("data-shown", f"{name} counts")
    expect(buttons.nth(3)).to_have_attribute("aria-pressed", "true")
    assert opened.page.locator("#view").input_value() == "gene"
    assert len(set(opened.page.evaluate("[...document.querySelectorAll('.small')].map((c) => c.toDataURL())"))) == 12


def test_what_strangers_wrote_is_text(browser: Browser, tmp_path: Path) -> None:
    adata = section(evil=True)
    made = Opened(browser, genar.report(adata, tmp_path / "a.html"))
    evil = adata.var_names[19]
    made.pick(evil)
    made.page.locator("#gene").click()  # the list is open
    made.page.locator("#slide").focus()
    made.page.keyboard.press("ArrowRight")
    assert made.spot()["name"] in adata.obs_names
    assert made.page.locator("#gene").input_value() == evil
    assert made.page.evaluate("window.ran") is None
    card = made.page.locator(".card")
    assert "<b>2</b>" in card.inner_text()
    assert "licence: mit" not in card.inner_text()
    assert card.locator("img").count() == 0
    links = [link.get_attribute("href") for link in card.locator("a").all()]
    assert links == ["https://example.org", "https://example.org/x.png"]  # to follow, if one will
    assert made.faults == []
    made.page.evaluate("document.body.append(Object.assign(document.createElement('img'), {src: 'https://a.example'}))")
    made.page.wait_for_timeout(50)
    made.page.close()
    assert "Content Security Policy" in made.faults[0]  # which would let nothing out


def test_small_windows_need_no_sideways_scrolling(opened: Opened) -> None:
    for width, height in ((1366, 768), (683, 384), (360, 640)):
        opened.page.set_viewport_size({"width": width, "height": height})
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.page.locator("#slide").bounding_box()["height"] >= 290


def test_an_old_browser_is_told(browser: Browser, path: Path) -> None:
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(path.as_uri())
    expect(page.locator("main > p.warnings")).to_contain_text("it needs a browser of 2023 or later")
    page.close()
