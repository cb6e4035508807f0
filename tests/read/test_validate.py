"""Real sections, and what can be wrong with them: each fault gives its one error."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from anndata import AnnData
from PIL import Image
from scipy.sparse import csr_matrix

import genar
from genar import keys
from genar.read.fit import ORIENTATIONS, better_fit, image_size, on_mask, reoriented, tissue
from genar.read.geometry import pitch_px
from genar.read.overlay import overlay, save_overlay
from genar.read.report import SectionReport, cohort, table
from genar.read.source import Source
from genar.read.validate import check, check_all, check_source, match_genes
from genar.slide.lattice import ST, VISIUM, lay
from genar.slide.section import centres, metadata
from genar.slide.tissue import TissueMask

MPP = 0.687


@pytest.fixture(scope="module")
def c2(shared: Path) -> AnnData:
    return genar.read.st(shared / "data/her2st", "C2", mpp=MPP)


@pytest.fixture(scope="module")
def c6(shared: Path) -> AnnData:
    return genar.read.st(shared / "data/her2st", "C6", mpp=MPP)


@pytest.fixture(scope="module")
def c2_tissue(c2: AnnData) -> TissueMask:
    return tissue(c2)


@pytest.fixture
def section(c2: AnnData) -> AnnData:
    """A copy of C2 to spoil."""
    return c2.copy()


def one_error(section: AnnData) -> str:
    report = check(section)
    assert len(report.errors) == 1
    assert not report.usable
    assert "\n" not in report.errors[0]
    assert "; " in report.errors[0]  # what to do about it follows
    return report.errors[0]


def test_a_good_section(c2: AnnData, c6: AnnData) -> None:
    report = check(c2)
    assert (report.errors, report.warnings) == ((), ())
    assert report.usable
    assert (report.name, report.patient, report.spots, report.genes) == ("C2", "C", 187, 15706)
    assert report.library_size == 8508
    assert (report.counts_source, report.mpp, report.mpp_source) == ("C2.tsv.gz", MPP, "given by the user")
    assert report.pitch_um == 200
    assert report.measured_pitch_um == pytest.approx(200, rel=0.02)
    assert report.on_tissue is not None
    assert report.on_tissue > 0.95
    assert report.better_fit is None
    assert (report.zero_spots, report.duplicate_genes, report.duplicate_barcodes) == (0, 0, 0)
    assert report.identifiers == "symbols"
    assert check(c6).usable


@pytest.mark.parametrize("change", ORIENTATIONS)
def test_each_orientation_is_undone_by_one(c2: AnnData, c2_tissue: TissueMask, change: tuple[bool, bool, bool]) -> None:
    """The coordinates that an image turned or mirrored so would have had."""
    size, xy = image_size(c2), c2.obsm[keys.SPATIAL]
    turned = reoriented(xy, size[::-1] if change[0] else size, change)
    found = better_fit(c2_tissue, turned, size)
    assert found is not None
    undo = next(by for by, name in ORIENTATIONS.items() if name == found[0])
    assert reoriented(turned, size, undo) == pytest.approx(xy)
    assert found[1] > 0.95


def test_the_right_orientation_is_left(c2: AnnData, c2_tissue: TissueMask) -> None:
    xy, size = c2.obsm[keys.SPATIAL], image_size(c2)
    assert better_fit(c2_tissue, xy, size) is None
    gaining = ~on_mask(c2_tissue, xy[:, ::-1]) & on_mask(c2_tissue, xy)
    assert better_fit(c2_tissue, xy[gaining, ::-1][:20], size) is not None
    assert better_fit(c2_tissue, xy[gaining, ::-1][:9], size) is None  # too few to tell


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((True, False, False), "80% of its spots lie on tissue, but 100% with coordinates x and y swapped"),
        ((False, True, False), "55% .* flipped left to right"),
    ],
)
def test_swapped_or_flipped(section: AnnData, change: tuple[bool, bool, bool], said: str) -> None:
    section.obsm[keys.SPATIAL] = reoriented(section.obsm[keys.SPATIAL], image_size(section), change)
    assert re.search(said, one_error(section))
    assert check(section).better_fit == ORIENTATIONS[change]


def test_the_image_of_another_section(section: AnnData, c6: AnnData) -> None:
    """C6 lies 1.4 mm farther left on its image; where two lie alike, as C3 and C5 do, nothing can be told."""
    section.uns[keys.SPATIAL] = {"C2": c6.uns[keys.SPATIAL]["C6"]}
    assert "only 40% of its spots lie on tissue" in one_error(section)


def test_somewhat_off_tissue_is_a_warning(section: AnnData) -> None:
    section.obsm[keys.SPATIAL] += [-1600, 0]
    report = check(section)
    assert report.errors == ()
    assert report.on_tissue is not None
    assert 0.5 < report.on_tissue < 0.8
    assert [w for w in report.warnings if re.match(r"only \d\d% of its spots lie on tissue", w)] == [*report.warnings]


@pytest.mark.parametrize(
    ("move", "said"),
    [
        (lambda xy: xy - [3000, 0], r"9 of 187 spots .* 9274 x 9911 px; they reach from \(-686, 3510\)"),
        (lambda xy: xy * 4, r"187 of 187 spots .* when divided by 3.97"),
        (lambda xy: xy + [0, 5000], "are of an image at least 1.3 times as large"),
        (lambda xy: np.where(np.arange(len(xy))[:, None] == 5, np.nan, xy), "1 of 187 spots have coordinates that are"),
    ],
)
def test_outside_the_image(section: AnnData, move: Callable[[np.ndarray], np.ndarray], said: str) -> None:
    section.obsm[keys.SPATIAL] = move(section.obsm[keys.SPATIAL])
    assert re.search(said, one_error(section))


def test_outside_the_image_unless_swapped(section: AnnData) -> None:
    """The image is 637 px higher than wide: spots near its lower border leave it when swapped."""
    section.obsm[keys.SPATIAL] = (section.obsm[keys.SPATIAL] + [0, 1500])[:, ::-1]
    assert "they fit when x and y are swapped" in one_error(section)


def test_another_pitch(section: AnnData) -> None:
    section.obsm[keys.SPATIAL] /= 4
    assert "49.59 µm apart, not 200, and fit the tissue when multiplied by 4.03" in one_error(section)
    section.obsm[keys.SPATIAL] *= 4
    metadata(section)[keys.MPP] = 0.5
    assert "0.5 µm/px is wrong, 0.6927 would fit" in one_error(section)
    metadata(section)[keys.MPP] = MPP * 1.08
    assert check(section).usable


@pytest.mark.parametrize("lattice", [VISIUM, ST])
@pytest.mark.parametrize(("kept", "shift"), [(1.0, 0.0), (0.6, 0.0), (1.0, 0.08)])
def test_the_pitch_is_measured(lattice: genar.slide.lattice.Lattice, kept: float, shift: float) -> None:
    random = np.random.default_rng(0)
    xy, _, _ = lay(lattice, 6500, 6500)
    xy = xy[random.random(len(xy)) < kept]
    xy = xy + random.normal(0, shift / 2 * lattice.pitch_um, xy.shape)
    assert pitch_px(xy) == pytest.approx(lattice.pitch_um, rel=0.01)


def test_no_pitch_of_scattered_spots() -> None:
    assert pitch_px(np.zeros((1, 2))) is None
    assert pitch_px(lay(ST, 6500, 6500)[0][::37]) is None


def with_image(section: AnnData, path: Path, mpp: float) -> AnnData:
    metadata(section)[keys.SOURCE_IMAGE] = str(path)
    metadata(section)[keys.MPP] = mpp
    return section


def test_the_resolution_in_the_images_file(section: AnnData, make_slide: Callable[..., Path]) -> None:
    image = np.full((64, 64, 3), 200, np.uint8)
    agreeing, other = make_slide(image, mpp=0.7), make_slide(image, mpp=0.25, name="other.tif")
    assert check(with_image(section, agreeing, MPP)).warnings == ()
    report = check(with_image(section, other, MPP))
    assert report.usable  # the pitch is right by the section's
    assert "other.tif says 0.25 µm/px, the section 0.687" in report.warnings[0]
    few = with_image(section[::20].copy(), other, MPP)  # no pitch to tell which of the two is right
    assert "other.tif says 0.25 µm/px, the section 0.687" in one_error(few)


def test_a_missing_image(section: AnnData) -> None:
    metadata(section)[keys.SOURCE_IMAGE] = "gone.svs"
    assert "gone.svs is not there" in one_error(section)
    del metadata(section)[keys.SOURCE_IMAGE]
    assert "no full-resolution image" in one_error(section)
    metadata(section)[keys.PATCHES] = __file__  # of HEST: tiles do instead
    assert check(section).usable


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda x: x.log1p(), "not whole, as of normalised expression"),
        (lambda x: x * np.nan, "NaN"),
        (lambda x: -x, "negative"),
        (lambda x: x * 0, "no counts at all"),
    ],
)
def test_what_are_not_counts(section: AnnData, spoil: Callable[[csr_matrix], csr_matrix], said: str) -> None:
    section.X = spoil(section.X.astype(np.float64))
    assert said in one_error(section)


def test_too_few_genes_or_spots(section: AnnData) -> None:
    assert "it has one gene" in one_error(section[:, ["ACTB"]].copy())
    assert "it has no gene" in one_error(section[:, []].copy())
    assert "it has no spots" in one_error(section[[]].copy())


@pytest.mark.filterwarnings("ignore:Observation names are not unique", "ignore:Variable names are not unique")
def test_names_that_stand_twice(section: AnnData) -> None:
    names = list(section.var_names)
    section.var_names = ["A", "A", "A", *names[3:]]
    report = check(section)
    assert (report.errors, report.duplicate_genes) == ((), 2)
    assert "repeated gene names: 2 (A)" in report.warnings[0]
    section.obs_names = ["x", *section.obs_names[1:-1], "x"]
    assert "repeated barcodes: 1 (x)" in one_error(section)
    assert check(section).duplicate_barcodes == 1


def test_what_is_worth_knowing(section: AnnData) -> None:
    counts = section.X.tolil()
    counts[:3] = 0
    section.X = csr_matrix(counts)
    metadata(section)[keys.PATIENT_SOURCE] = "unknown; the section counts as a patient of its own"
    report = check(section)
    assert (report.usable, report.zero_spots, report.patient) == (True, 3, None)
    said = ("3 of 187 spots have no counts", "its patient is not known")
    assert all(any(w.startswith(s) for w in report.warnings) for s in said)
    assert len(report.warnings) == len(said)
    section.X = csr_matrix(np.eye(*section.shape, dtype=np.int32))
    assert any("median library size is only 1" in w for w in check(section).warnings)


def test_an_array_that_its_resolution_was_measured_by_is_not_told_another(section: AnnData) -> None:
    known = metadata(section)
    known[keys.MPP_SOURCE], known[keys.MPP] = "measured: spots 100 µm apart lie 440.9 px apart", 0.2268
    known[keys.PITCH_UM] = 100.0
    error = one_error(section)
    assert "though the resolution was measured by them: rows and columns, or the kind of array" in error
    assert "mpp" not in error


@pytest.mark.parametrize("swapped", [False, True])
def test_a_mirrored_visium_array_is_told(section: AnnData, swapped: bool) -> None:
    """Where the tissue fills the image, the share of spots on it does not tell."""
    known, xy = metadata(section), centres(section)
    known[keys.LATTICE] = "visium"
    section.obs[keys.ARRAY_COL], section.obs[keys.ARRAY_ROW] = (xy[:, ::-1] if swapped else xy).T
    warnings = check(section).warnings
    assert any("its array lies mirrored in the image" in w for w in warnings) == swapped


def test_ensembl_ids_are_matched_across_sections(section: AnnData) -> None:
    symbols = {f"ENSG{i:011}": name for i, name in enumerate(section.var_names)}
    section.var_names = [f"{stable}.3" for stable in symbols]
    report = check(section)
    assert (report.identifiers, report.match_rate) == ("ensembl", None)
    (unmatched,) = match_genes([report], {})
    assert unmatched.match_rate == 0
    assert "0% of them have a symbol" in unmatched.warnings[0]
    (matched,) = match_genes([report], symbols)
    assert (matched.match_rate, matched.warnings) == (1, ())
    assert matched.gene_names == tuple(sorted(symbols.values()))


def test_sections_together() -> None:
    one = SectionReport("1", "P", spots=5, gene_names=("A", "B"))
    two = SectionReport("2", "P", spots=6, gene_names=("B", "C"), warnings=("x; y",))
    three = SectionReport("3", None, spots=7, gene_names=("B",))
    bad = SectionReport("4", "Q", spots=100, gene_names=("Z",), errors=("a; b", "c; d"))
    found = cohort([one, two, three, bad])
    assert (found.sections, found.usable, found.spots) == (4, 3, 18)
    assert found.patients == {"P": ("1", "2"), "3": ("3",)}
    assert (found.shared_genes, found.partial_genes) == (1, 2)
    frame = table([one, two, three, bad])
    assert list(frame.index) == ["1", "2", "3", "4"]
    assert frame.loc["4", "errors"] == "a; b\nc; d"
    assert "gene_names" not in frame
    assert cohort([bad]).shared_genes == 0


@pytest.fixture
def folder(tmp_path: Path, tissue_image: Callable[..., np.ndarray]) -> Path:
    """Three small sections in her2st's layout, 200 µm apart at 2 µm/px; the last one's counts are no counts."""
    xy, row, col = lay(ST, 900, 900)
    image = Image.fromarray(tissue_image())
    for name in ("K1", "K2", "K3"):
        for part in ("ST-cnts", "ST-spotfiles", f"ST-imgs/K/{name}"):
            (tmp_path / part).mkdir(parents=True, exist_ok=True)
        spots = [f"{x}x{y}" for x, y in zip(col, row, strict=True)]
        lines = [f"{spot}\t{i + 300}\t{'x' if name == 'K3' else 7}" for i, spot in enumerate(spots)]
        (tmp_path / f"ST-cnts/{name}.tsv").write_text("\n".join([f"\tA\t{name}", *lines]))
        pixels = xy / 2 + 400 - 225
        lines = [f"{x}\t{y}\t{px}\t{py}\t1" for x, y, (px, py) in zip(col, row, pixels, strict=True)]
        (tmp_path / f"ST-spotfiles/{name}_selection.tsv").write_text(
            "\n".join(["x\ty\tpixel_x\tpixel_y\tselected", *lines])
        )
        image.save(tmp_path / f"ST-imgs/K/{name}/i.png")
    return tmp_path


def test_all_sections_of_a_folder(folder: Path, tmp_path: Path) -> None:
    sources = [Source(name, "st", folder, mpp=2.0) for name in ("K1", "K2", "K3")]
    reports = check_all(sources, tmp_path / "pictures", progress=False)
    assert [r.name for r in reports] == ["K1", "K2", "K3"]
    assert [r.usable for r in reports] == [True, True, False]
    assert len(reports[2].errors) == 1
    assert "K3.tsv" in reports[2].errors[0]
    assert sorted(p.name for p in (tmp_path / "pictures").iterdir()) == ["K1.png", "K2.png"]
    assert (cohort(reports).shared_genes, cohort(reports).partial_genes) == (1, 2)
    report, found = check_source(sources[0])
    assert report == reports[0]
    assert found is not None
    assert check_source(sources[2])[1] is None


def test_the_overlay_colours_what_lies_off_tissue(section: AnnData, tmp_path: Path) -> None:
    section.obsm[keys.SPATIAL][:4] = [[100, 100], [-500, 200], [300, 300], [np.nan, 0]]
    ax = overlay(section).axes[0]
    on, off = (c for c in ax.collections if hasattr(c, "get_widths") and hasattr(c, "get_heights"))
    assert (len(on.get_offsets()), len(off.get_offsets())) == (183, 3)
    assert off.get_widths()[0] == pytest.approx(100 / MPP)
    assert ax.get_xlim()[0] == pytest.approx(-500 - 50 / MPP)  # what lies outside the image is seen
    assert "187 spots" in ax.get_title()
    save_overlay(section, tmp_path / "a/C2.png")
    with Image.open(tmp_path / "a/C2.png") as picture:
        assert min(picture.size) > 900
