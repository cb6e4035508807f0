"""A folder that holds what the pages name: small slides and results, measured sections, models."""

import json
import shutil
from pathlib import Path

import pandas as pd
import torch
from anndata import AnnData
from PIL import Image
from safetensors.torch import load_file

import genar
from genar import keys
from genar.shelf import BUNDLED
from tests.docs.blocks import ROOT
from tests.read.layouts import on_visium, write_hest, write_image, write_visium_v2

CORNER, SIDE = (650, 1800), 1100  # of the slides in the real one, and of them, in pixels: 550 µm full of tissue
PATIENTS = {"A1": "P01", "B1": "P07"}  # of the sections
MODELS = ("runs/mine/model", "runs/lung/model", "runs/lung/folds/P01/model", "models/mine")
MPP = 0.499


def write_folder(root: Path, shared: Path) -> None:
    """Write it."""
    _write_slides(root, shared)
    predicted = genar.predict(root / "slide.svs")
    (root / "results").mkdir()
    predicted.write_h5ad(root / "results/slide.h5ad")
    clustered = predicted.copy()
    clustered.obs["leiden"] = pd.Categorical(["0"] + ["1"] * (predicted.n_obs - 1))
    clustered.write_h5ad(root / "clustered.h5ad")
    _write_sections(root, genar.predict(root / "slide.svs", spots="grid", pitch=100)[:16])
    for model in MODELS:
        shutil.copytree(BUNDLED / "her2st-mini", root / model)
    (root / "configs").symlink_to(ROOT / "configs")
    _write_checkpoint(root, shared / "parity/paper_like")


def _write_slides(root: Path, shared: Path) -> None:
    """Write a corner of a slide, under the names that the pages give it, and an outline of its tissue."""
    with genar.read.slide(shared / "data/wsi/CMU-1-Small-Region.svs") as slide:
        image = slide.read(*CORNER, SIDE, SIDE)
    write_image(root / "slide.svs", image, MPP)
    write_image(root / "slides/A1.svs", image)
    Image.fromarray(image).save(root / "section.jpg", quality=95)
    (root / "slides.csv").write_text("slide,mpp,name\nslide.svs,,slide\n")
    (root / "outlines").mkdir()
    ring = [[0, 0], [SIDE, 0], [SIDE, SIDE], [0, SIDE], [0, 0]]
    outline = {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    (root / "outlines/slide.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [outline]}))


def _write_sections(root: Path, predicted: AnnData) -> None:
    """Write sections on a Visium array, whose counts were predicted: as Space Ranger does, as HEST, and their sheet."""
    section, _ = on_visium(predicted, pitch_px=100 / MPP)
    del section.var[keys.GENE_IDS]
    write_visium_v2(section, root / "spaceranger", None)
    write_visium_v2(section, root / "visium/A1", None)
    with genar.read.slide(root / "slide.svs") as slide:
        image = slide.read(0, 0, SIDE, SIDE)
    section.obs[keys.IN_TISSUE] = 1
    known = {"pixel_size_um_estimated": MPP, "spot_diameter": 55.0, "inter_spot_dist": 100.0, "st_technology": "Visium"}
    rows = ["path,section,image,mpp,patient", "visium/A1,A1,slides/A1.svs,,P01"]
    for name, patient in PATIENTS.items():
        write_hest(section, root / "DATA", image, name, patient=patient, **known)
        if name != "A1":
            rows.append(f"DATA,{name},,,{patient}")
    (root / "samples.csv").write_text("\n".join(rows) + "\n")
    for name in ("hest_data", "new_patients"):
        (root / name).symlink_to("DATA")


def _write_checkpoint(root: Path, case: Path) -> None:
    """Write a checkpoint as the published code does."""
    model = {"ablation_protocol": "normalized"} | json.loads(case.with_suffix(".json").read_text())
    tensors = {f"model.{name}": tensor for name, tensor in load_file(case.with_suffix(".safetensors")).items()}
    config = {"MODEL": model, "DATA": {"grouping_mode": "kmeans"}, "encoder_name": "uni", "max_gene_count": 40}
    parameters = {"config": config, "dataset": "PRAD"}
    torch.save({"epoch": 3, "hyper_parameters": parameters, "state_dict": tensors}, root / "best.ckpt")
    (root / "genes.txt").write_text("\n".join(f"GENE{i}" for i in range(20)) + "\n")
