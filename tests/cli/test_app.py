import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from genar.cli import app
from genar.errors import SlideError

HELP = Path(__file__).parent / "help"
HEAVY = {"torch", "scanpy", "anndata", "matplotlib", "lightning", "timm", "numpy", "pydantic"}


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Path, Path, dict]]:
    """Replace the prediction by a record of its calls, in a folder of slides; one named bad* or bug* fails."""
    from genar.jobs.predict_file import Written

    calls: list[tuple[Path, Path, dict]] = []

    def predict_to_file(slide: Path, output: Path, options: object, **more: object) -> Written:
        more.pop("progress", None)
        calls.append((slide, output, {"options": options, "name": slide.stem, **more}))
        errors = {
            "bad": SlideError(slide, "it is\nno slide", "give another"),
            "bug": ZeroDivisionError("a\nb"),
            "int": KeyboardInterrupt(),
            "mem": MemoryError(),
        }
        if error := errors.get(slide.stem[:3]):
            raise error
        name = more.get("name") or slide.stem
        is_new = not slide.stem.startswith("old")
        return Written(output / f"{name}.h5ad", output / f"{name}.png", 1234, None, is_new=is_new)

    for module in ("predict_file", "work"):
        monkeypatch.setattr(f"genar.jobs.{module}.predict_to_file", predict_to_file)
    monkeypatch.setattr("genar.jobs.cohort.model_of", lambda _: SimpleNamespace(info=SimpleNamespace(encoder=None)))
    for name in ("check", "weights_sha256"):
        monkeypatch.setattr(f"genar.jobs.cohort.{name}", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    for name in ("a.svs", "b.svs", "c.tif", "a_b.svs", "bad.svs", "bug.svs", "good.svs", "old.svs", "memory.svs",
                 "interrupted.svs", "x/a.svs", "y/a.tiff", "cohort.svs", "index.svs"):  # fmt: skip
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    return calls


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse words its help otherwise in other versions")
@pytest.mark.parametrize("command", ["genar", *app.COMMANDS])
def test_help_is_as_pinned(genar, command: str) -> None:
    """To pin again: COLUMNS=80 genar COMMAND --help > tests/cli/help/COMMAND.txt."""
    status, out, err = genar(*([] if command == "genar" else [command]), "--help")
    assert (status, err) == (0, "")
    assert out == (HELP / f"{command}.txt").read_text(encoding="utf-8")
    lines = out.splitlines()
    assert len(lines) <= (73 if command == "predict" else 64 if command == "demo" else 54)
    assert max(map(len, lines)) <= 80
    assert f"  genar {'demo' if command == 'genar' else command}" in out[out.index("\nexample") :]


def test_every_command_is_in_the_help(genar) -> None:
    _, out, _ = genar("--help")
    for name, summary in app.COMMANDS.items():
        assert f"    {name}" in out
        assert summary in out


def test_help_is_light() -> None:
    code = "import sys\nfrom genar.cli.app import main\ntry: main(sys.argv[1:])\nexcept SystemExit: print(*sys.modules)"
    for words in (["--help"], ["predict", "--help"], ["train", "--help"], ["import", "--help"], ["predict"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        loaded = set(done.stdout.rpartition("\n\n")[2].split())
        assert "genar.cli.app" in loaded
        assert not loaded & HEAVY


def test_version(genar) -> None:
    from genar import __version__

    assert genar("--version") == (0, f"genar {__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "COMMAND"),
        (["prdict"], "invalid choice: 'prdict'"),
        (["predict"], "required: SLIDE"),
        (["predict", "a.svs", "--nonsense"], "unknown argument --nonsense"),
        (["demo", "a.svs"], "unknown argument a.svs"),
        (["predict", "a.svs", "--mpp", "half"], "--mpp: invalid float value: 'half'"),
        (["predict", "a.svs", "--batch-size", "0"], "--batch-size: 0 is too few"),
        (["predict", "a.svs", "--batch-size", "2.5"], "'2.5' is not a whole number"),
        (["predict", "a.svs", "--workers", "-1"], "--workers"),
        (["predict", "a.svs", "--seed", str(2**63)], "--seed: 9223372036854775808 is not below 2**63"),
        (["predict", "a.svs", "--estimator", "median"], "invalid choice: 'median'"),
        (["predict", "a.svs", "--decoding", "beam"], "invalid choice: 'beam'"),
        (["predict", "a.svs", "--samples", "0"], "--samples: 0 is too few"),
        (
            ["predict", "a.svs", "--samples", "2", "--decoding", "greedy"],
            "--samples: --decoding greedy gives the same counts",
        ),
        (["predict", "a.svs", "--top-k", "-1"], "--top-k: '-1' is not a whole number from 0"),
        (["predict", "a.svs", "b.svs", "--top-p", "1.5"], "--top-p: 1.5 is not above 0 and at most 1"),
        (["predict", "a.svs", "--temperature", "0"], "--temperature: 0 is not above 0"),
        (["predict", "none.svs"], "none.svs: there is no such file; check the path"),
        (["predict", "a.svs", "none.svs"], "none.svs: there is no such file; check the path"),
        (["predict", "none.csv"], "none.csv: it cannot be read (No such file or directory)"),
        (["predict", "x/a.svs", "b.svs", "y/a.tiff"], "y/a.tiff: it and x/a.svs would both be called a"),
        (["predict", "cohort.svs", "a.svs", "--concat"], "cohort.svs: genar writes another file called cohort.h5ad"),
        (["predict", "index.svs", "a.svs", "--report"], "index.svs: genar writes another file called index.html"),
        (["report"], "required: OUT.h5ad"),
        (["predict", "a.svs", "--cluster", "slurm"], "--cluster: 'slurm' is no cluster"),
        (["predict", "a.svs", "--cluster", "none.yaml"], "none.yaml: it cannot be read (No such file or directory)"),
        (["predict", "a.svs", "b.svs", "-o", "c.tif/out"], "summary.csv: its folder cannot be written to"),
        (["demo", "--cluster", "local:2"], "unknown argument --cluster"),
        (["import", "a.ckpt"], "required: -o/--output, --genes, --tile-um, --spots"),
        (["train"], "required: CONFIG"),
        (["train", "--model.width", "8", "no.yaml"], "8: it is no YAML file; give CONFIG before the settings"),
        (["train", "--seed", "1", "no.yaml", "--model.width", "8"], "give CONFIG before the settings"),
        (["train", "no.yaml"], "no.yaml: it cannot be read (No such file or directory)"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(genar, job, words: list[str], part: str) -> None:
    status, out, err = genar(*words)
    assert (status, out, job) == (2, "", [])
    assert err.startswith("genar: error: ")
    assert part in err
    assert err.count("\n") == 1
    assert err.endswith("\n")


def test_predict_passes_its_options(genar, job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genar.jobs.given.check_where", lambda *_: None)
    monkeypatch.setattr("genar.shelf.find", Path)
    from genar.jobs.options import Options
    from genar.model.decoding import Decoding

    status, out, err = genar(
        *"predict x/a.svs b.svs -o out --model m --spots grid --pitch 50 --mpp 0.5 --estimator mode".split(),
        *"--device cpu --batch-size 8 --workers 2 --seed 7 --overwrite --depth 900 --tissue none".split(),
        *"--decoding sample --samples 3 --temperature 0.5 --top-k 4 --top-p 0.9".split(),
        *"--features f.h5 --encoder-weights w.safetensors --cache c".split(),
    )
    decoding = Decoding(rule="sample", n_samples=3, temperature=0.5, top_k=4, top_p=0.9)
    options = Options(
        model="m", spots="grid", pitch=50.0, mpp=0.5, estimator="mode", device="cpu", batch_size=8, workers=2, seed=7,
        depth=900.0, decoding=decoding, tissue="none", features=Path("f.h5"), cache=Path("c"),
        encoder_weights=Path("w.safetensors"),
    )  # fmt: skip
    expected = {"options": options, "overwrite": True}
    assert job == [(Path(s), Path("out"), expected | {"name": Path(s).stem}) for s in ("x/a.svs", "b.svs")]
    assert (status, err) == (0, "")
    lines = [re.sub(r"[0-9.]+ s$", "T s", line) for line in out.splitlines()]
    assert lines[0] == "1 of 2: wrote out/a.h5ad, 1,234 spots, T s"
    assert lines[1:] == ["2 of 2: wrote out/b.h5ad, 1,234 spots, T s", "2 done; see out/summary.csv"]


def test_one_slide_alone(genar, job) -> None:
    assert genar("predict", "a.svs", "-o", "out") == (0, "wrote out/a.h5ad and out/a.png\n", "")
    said = "out/old.h5ad is there already, of the same request; --overwrite makes it anew\n"
    assert genar("predict", "old.svs", "-o", "out") == (0, said, "")
    assert genar("predict", "bad.svs") == (2, "", "genar: error: bad.svs: it is no slide; give another\n")
    assert not Path("out").exists()


def test_a_table_of_slides(genar, job) -> None:
    Path("t.csv").write_text("slide,mpp,name\nx/a.svs,,A 1\nb.svs,0.25,\n", encoding="utf-8")
    assert genar("predict", "t.csv", "-o", "out", "--mpp", "0.5")[0] == 0
    assert [(call[0], call[2]["name"], call[2]["options"].mpp) for call in job] == [
        (Path("x/a.svs"), "A 1", 0.5), (Path("b.svs"), "b", 0.25)
    ]  # fmt: skip


def test_defaults_are_those_of_the_function(genar, job) -> None:
    import inspect

    from genar.jobs.options import Options
    from genar.jobs.predict import predict
    from genar.model.decoding import Decoding

    assert genar("predict", "a.svs")[0] == 0
    (_, output, given) = job[0]
    assert output == Path()
    assert given == {"options": Options(), "name": "a", "overwrite": False}
    defaults = {name: p.default for name, p in inspect.signature(predict).parameters.items()}
    del defaults["slide"], defaults["progress"]
    of_files = {"report": False}
    assert vars(Options()) == defaults | {"decoding": defaults["decoding"] or Decoding()} | of_files


def test_several_samples_are_drawn_ones(genar, job) -> None:
    assert genar("predict", "a.svs", "--samples", "5")[0] == 0
    decoding = job[0][2]["options"].decoding
    assert (decoding.rule, decoding.n_samples) == ("sample", 5)


def test_underscores_are_hyphens(genar, job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genar.shelf.find", Path)
    assert genar("predict", "a_b.svs", "--batch_size", "5")[0] == 0
    assert genar("predict", "a_b.svs", "--batch_size=6", "--model=my_model")[0] == 0
    assert [(c[0].name, c[2]["options"].batch_size) for c in job] == [("a_b.svs", 5), ("a_b.svs", 6)]
    assert job[1][2]["options"].model == "my_model"


def test_one_failing_slide_does_not_stop_the_others(genar, job) -> None:
    status, out, err = genar("predict", "bad.svs", "good.svs", "old.svs", "-o", "out")
    assert [c[0].name for c in job] == ["bad.svs", "good.svs", "old.svs"]
    assert status == 1
    lines = out.splitlines()
    assert lines[0] == "1 of 3: bad.svs failed"
    assert lines[1].startswith("2 of 3: wrote out/good.h5ad, 1,234 spots, ")
    assert lines[2:] == ["3 of 3: out/old.h5ad is there already", "1 done, 1 present, 1 failed; see out/summary.csv"]
    assert err == "genar: error: bad.svs: it is no slide; give another\n"


@pytest.mark.parametrize("words", [["--debug", "predict", "bad.svs"], ["predict", "bad.svs", "--debug"]])
def test_debug_shows_the_traceback(genar, job, words: list[str]) -> None:
    status, _, err = genar(*words)
    assert status == 2
    assert err.startswith("Traceback")
    assert "in predict_to_file" in err
    assert err.endswith("genar: error: bad.svs: it is no slide; give another\n")


def test_internal_error(genar, job) -> None:
    status, out, err = genar("predict", "bug.svs")
    assert (status, out) == (1, "")
    assert err == ("genar: internal error: ZeroDivisionError: a b; run again with --debug and report the traceback\n")
    status, _, err = genar("predict", "bug.svs", "--debug")
    assert status == 1
    assert err.startswith("Traceback")


def test_an_internal_error_does_not_stop_the_other_slides(genar, job) -> None:
    status, out, err = genar("predict", "bug.svs", "good.svs", "memory.svs", "bad.svs")
    assert [c[0].stem for c in job] == ["bug", "good", "memory", "bad"]
    assert status == 1
    assert "2 of 4: wrote good.h5ad" in out
    said = [
        "genar: error: bug.svs: internal error: ZeroDivisionError: a b",
        f"genar: error: memory.svs: {app.OUT_OF_MEMORY}",
        "genar: error: bad.svs: it is no slide; give another",
    ]
    assert err.splitlines() == said
    _, _, err = genar("predict", "bug.svs", "good.svs", "--debug")
    assert err.startswith("Traceback")


def test_an_interrupt_keeps_what_is_done(genar, job) -> None:
    status, out, err = genar("predict", "good.svs", "interrupted.svs", "a.svs")
    assert (status, err) == (130, "genar: interrupted\n")
    assert out.startswith("1 of 3: wrote good.h5ad")
    assert out.count("\n") == 1
    assert [line.split(",")[1:3] for line in Path("summary.csv").read_text().splitlines()[1:]] == [["good", "done"]]


def test_out_of_memory(genar, job) -> None:
    import torch

    status, _, err = genar("predict", "memory.svs")
    assert (status, err) == (1, f"genar: error: {app.OUT_OF_MEMORY}\n")
    assert torch.OutOfMemoryError.__name__ == "OutOfMemoryError"  # by which app knows torch's without importing it


def test_interrupt(genar, job) -> None:
    assert genar("predict", "interrupted.svs") == (130, "", "genar: interrupted\n")


def test_demo_predicts_the_demo_slide(genar, job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genar.datasets.demo_slide", lambda: Path("x/a.svs"))
    assert genar("demo", "-o", "out", "--seed", "3")[0] == 0
    assert job[0][:2] == (Path("x/a.svs"), Path("out"))
    assert job[0][2]["options"].seed == 3


def test_sigterm_leaves_nothing_behind(tmp_path: Path) -> None:
    """A real process that is stopped while it writes."""
    code = """
        import sys, time, types
        from genar.cli.app import main
        from genar.write.atomic import atomic

        def predict_to_file(slide, output, options, **_):
            with atomic(output / "a.h5ad", output / "a.png", overwrite=False) as (table, _):
                table.write_text("half")
                print("writing", table, flush=True)
                time.sleep(60)

        sys.modules["genar.jobs.predict_file"] = types.SimpleNamespace(predict_to_file=predict_to_file)
        main(["predict", sys.executable, "-o", sys.argv[1]])
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "new" / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("writing"), process.stderr
        assert Path(said.split()[1]).read_text() == "half"
        os.kill(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "genar: interrupted\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("entry", [["-m", "genar"], ["-m", "genar.cli.app"]])
def test_entry_points(entry: list[str]) -> None:
    if entry[-1] == "genar":
        done = subprocess.run([sys.executable, *entry, "predict"], capture_output=True, text=True, check=False)
    else:
        script = Path(sys.executable).with_name("genar")
        done = subprocess.run([script, "predict"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("genar: error: the following arguments are required: SLIDE")
