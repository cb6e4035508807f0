import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from genar.cli import app
from genar.errors import SlideError

HELP = Path(__file__).parent / "help"
HEAVY = {"torch", "scanpy", "anndata", "matplotlib", "lightning", "timm", "numpy", "pydantic"}


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, Path, dict]]:
    """Replace the prediction by a record of its calls; a slide named bad* or bug* fails."""
    calls: list[tuple[Path, Path, dict]] = []

    def predict_to_file(slide: Path, output: Path, **options: object) -> tuple[Path, Path]:
        calls.append((slide, output, options))
        errors = {
            "bad": SlideError(slide, "it is\nno slide", "give another"),
            "bug": ZeroDivisionError("a\nb"),
            "int": KeyboardInterrupt(),
            "mem": MemoryError(),
        }
        if error := errors.get(slide.stem[:3]):
            raise error
        return output / f"{slide.stem}.h5ad", output / f"{slide.stem}.png"

    monkeypatch.setattr("genar.jobs.predict.predict_to_file", predict_to_file)
    return calls


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse words its help otherwise in other versions")
@pytest.mark.parametrize("command", ["genar", *app.COMMANDS])
def test_help_is_as_pinned(genar, command: str) -> None:
    """To pin again: COLUMNS=80 genar COMMAND --help > tests/cli/help/COMMAND.txt."""
    status, out, err = genar(*([] if command == "genar" else [command]), "--help")
    assert (status, err) == (0, "")
    assert out == (HELP / f"{command}.txt").read_text(encoding="utf-8")
    lines = out.splitlines()
    assert len(lines) <= 54
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


def test_predict_passes_its_options(genar, job) -> None:
    from genar.model.decoding import Decoding

    status, out, err = genar(
        *"predict x/a.svs b.tif -o out --model m --spots grid --pitch 50 --mpp 0.5 --estimator mode".split(),
        *"--device cpu --batch-size 8 --workers 2 --seed 7 --overwrite --depth 900".split(),
        *"--decoding sample --samples 3 --temperature 0.5 --top-k 4 --top-p 0.9".split(),
    )
    decoding = {"rule": "sample", "n_samples": 3, "temperature": 0.5, "top_k": 4, "top_p": 0.9}
    expected = {
        "model": "m", "spots": "grid", "pitch": 50.0, "mpp": 0.5, "estimator": "mode", "device": "cpu",
        "batch_size": 8, "workers": 2, "seed": 7, "overwrite": True, "depth": 900.0,
        "decoding": Decoding.model_validate(decoding),
    }  # fmt: skip
    assert job == [(Path("x/a.svs"), Path("out"), expected), (Path("b.tif"), Path("out"), expected)]
    assert (status, err) == (0, "")
    assert out == "wrote out/a.h5ad and out/a.png\nwrote out/b.h5ad and out/b.png\n"


def test_defaults_are_those_of_the_function(genar, job, monkeypatch: pytest.MonkeyPatch) -> None:
    import inspect

    from genar.jobs.predict import predict
    from genar.model.decoding import Decoding

    assert genar("predict", "a.svs")[0] == 0
    (_, output, options) = job[0]
    defaults = {name: p.default for name, p in inspect.signature(predict).parameters.items()}
    assert output == Path()
    assert options.pop("overwrite") is False
    assert (options.pop("decoding") or Decoding()) == (defaults.pop("decoding") or Decoding())
    assert options == {name: defaults[name] for name in options}


def test_several_samples_are_drawn_ones(genar, job) -> None:
    assert genar("predict", "a.svs", "--samples", "5")[0] == 0
    decoding = job[0][2]["decoding"]
    assert (decoding.rule, decoding.n_samples) == ("sample", 5)


def test_underscores_are_hyphens(genar, job) -> None:
    assert genar("predict", "a_b.svs", "--batch_size", "5")[0] == 0
    assert genar("predict", "a_b.svs", "--batch_size=6", "--model=my_model")[0] == 0
    assert [(c[0].name, c[2]["batch_size"]) for c in job] == [("a_b.svs", 5), ("a_b.svs", 6)]
    assert job[1][2]["model"] == "my_model"


def test_slides_of_one_stem_are_refused(genar, job) -> None:
    status, out, err = genar("predict", "x/a.svs", "b.svs", "y/a.tiff")
    assert (status, out, job) == (2, "", [])
    assert err == (
        "genar: error: x/a.svs: two of the slides would be written to a.h5ad;"
        " predict them into different folders with -o\n"
    )


def test_one_failing_slide_does_not_stop_the_others(genar, job) -> None:
    status, out, err = genar("predict", "bad.svs", "good.svs")
    assert [c[0].name for c in job] == ["bad.svs", "good.svs"]
    assert status == 2
    assert out == "wrote good.h5ad and good.png\n"
    assert err == "genar: error: bad.svs: it is no slide; give another\n"


@pytest.mark.parametrize("words", [["--debug", "predict", "bad.svs"], ["predict", "bad.svs", "--debug"]])
def test_debug_shows_the_traceback(genar, job, words: list[str]) -> None:
    status, _, err = genar(*words)
    assert status == 2
    assert err.startswith("Traceback")
    assert "in predict_to_file" in err
    assert err.endswith("genar: error: bad.svs: it is no slide; give another\n")


def test_internal_error(genar, job) -> None:
    status, out, err = genar("predict", "good.svs", "bug.svs")
    assert status == 1
    assert out == "wrote good.h5ad and good.png\n"  # what was written is said, whatever follows
    assert err == ("genar: internal error: ZeroDivisionError: a b; run again with --debug and report the traceback\n")
    status, _, err = genar("predict", "bug.svs", "--debug")
    assert status == 1
    assert err.startswith("Traceback")


def test_an_internal_error_does_not_stop_the_other_slides(genar, job) -> None:
    status, out, err = genar("predict", "bug.svs", "good.svs", "memory.svs", "bad.svs")
    assert [c[0].stem for c in job] == ["bug", "good", "memory", "bad"]
    assert (status, out) == (1, "wrote good.h5ad and good.png\n")
    said = ["genar: internal error: ZeroDivisionError", f"genar: error: {app.OUT_OF_MEMORY}", "genar: error: bad.svs"]
    assert all(line.startswith(start) for line, start in zip(err.splitlines(), said, strict=True))
    assert genar("predict", "interrupted.svs", "good.svs")[:2] == (130, "")


def test_out_of_memory(genar, job) -> None:
    import torch

    status, _, err = genar("predict", "memory.svs")
    assert (status, err) == (1, f"genar: error: {app.OUT_OF_MEMORY}\n")
    assert torch.OutOfMemoryError.__name__ == "OutOfMemoryError"  # by which app knows torch's without importing it


def test_interrupt(genar, job) -> None:
    assert genar("predict", "interrupted.svs") == (130, "", "genar: interrupted\n")


def test_demo_predicts_the_demo_slide(genar, job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genar.datasets.demo_slide", lambda: Path("cache/demo.svs"))
    assert genar("demo", "-o", "out", "--seed", "3")[0] == 0
    assert job[0][:2] == (Path("cache/demo.svs"), Path("out"))
    assert job[0][2]["seed"] == 3


def test_sigterm_leaves_nothing_behind(tmp_path: Path) -> None:
    """A real process that is stopped while it writes."""
    code = """
        import sys, time, types
        from genar.cli.app import main
        from genar.write.atomic import atomic

        def predict_to_file(slide, output, **_):
            with atomic(output / "a.h5ad", output / "a.png", overwrite=False) as (table, _):
                table.write_text("half")
                print("writing", table, flush=True)
                time.sleep(60)

        sys.modules["genar.jobs.predict"] = types.SimpleNamespace(predict_to_file=predict_to_file)
        sys.modules["genar.jobs"] = types.ModuleType("genar.jobs")
        main(["predict", "a.svs", "-o", sys.argv[1]])
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
