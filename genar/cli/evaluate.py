"""``genar evaluate``."""

import argparse
from pathlib import Path

DESCRIPTION = """\
Judge a model on measured sections that it never saw. DATA is as for 'genar
check'; sections that the model learnt from are told by their content, and are
not judged on. Where all of them are in DATA, baselines learn from them, too.
Prints means over sections; writes scores.csv, genes.csv, evaluation.json and
pictures."""

EPILOG = """\
examples:
  genar evaluate runs/lung/model new_patients -o judged
  genar evaluate runs/her2st-mini/folds/C2/model her2st --mpp 0.687 -o judged"""

PRINTED = ("PCC-10", "PCC-50", "PCC-200", "PCC", "Spearman", "MSE", "MAE", "NLL", "CRPS", "SSIM")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="name, folder or OWNER/NAME[@REVISION]; see 'genar models'")
    add("data", metavar="DATA", type=Path, help="where the measured sections lie")
    add("-o", "--output", metavar="DIR", type=Path, default=Path("evaluation"), help="output folder (evaluation)")
    add("--sections", metavar="NAME", nargs="+", help="judge on these alone")
    add("--baselines", metavar="NAME", nargs="+", default=["gene mean", "ridge"],
        help="what learns from the same sections, beside the model: gene mean, k-nearest spots, HEST-Bench ridge, "
        "ridge, MLP, NB regression; or none (gene mean, ridge)")  # fmt: skip
    add("--seen", action="store_true", help="judge on sections that the model learnt from, too")
    add("--mpp", type=float, metavar="UM", help="µm per pixel of the images, where the data do not tell")
    add("--encoder-weights", type=Path, metavar="PATH", help="weights of the encoder")
    add("--cache", type=Path, metavar="DIR", help="folder that features are kept in (the user's cache)")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (auto)")
    add("--seed", type=int, default=0, help="of the baselines that draw (0)")
    add("--overwrite", action="store_true", help="replace the files of an earlier evaluation")


def run(args: argparse.Namespace) -> int:
    """Judge the model and print what it is worth."""
    from genar.shelf import at_commit

    args.model = at_commit(args.model)  # before the imports that take seconds
    from genar.jobs.evaluate import evaluate

    result = evaluate(
        args.model, args.data, args.output, sections=args.sections, mpp=args.mpp, seen=args.seen,
        baselines=[] if args.baselines == ["none"] else args.baselines, encoder_weights=args.encoder_weights,
        cache=args.cache, device=args.device, seed=args.seed, overwrite=args.overwrite,
    )  # fmt: skip
    means = result.means()
    number = result.scores["section"].nunique()
    print(f"mean of {number} sections:" if number > 1 else "1 section:")
    print(means[[name for name in PRINTED if name in means]].round(3).rename_axis(None).to_string(na_rep="-"))
    print(f"wrote {args.output / 'scores.csv'} and more")
    return 0
