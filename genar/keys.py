"""Every key that genar reads or writes in an AnnData, named once."""

# obs: one row a spot
IN_TISSUE = "in_tissue"
ARRAY_ROW = "array_row"
ARRAY_COL = "array_col"
TISSUE_FRACTION = "tissue_fraction"
BLUR_UM = "blur_um"  # standard deviation of the slide's blur there, in µm
IN_FOCUS = "in_focus"
OOD = "ood"  # how unlike the training tissue, as a percentile; see genar.ood
TOTAL_COUNTS = "total_counts"
N_GENES = "n_genes_by_counts"
LIBRARY_ID = "library_id"
PATIENT = "patient"

# obsm
SPATIAL = "spatial"  # also the key in uns


def features(encoder: str) -> str:
    """Return the ``obsm`` key of an encoder's features, ``X_<encoder>``."""
    return f"X_{encoder.replace('/', '_')}"  # anndata takes no slash in a key


def views(encoder: str) -> str:
    """Return the ``obsm`` key of the features of a tile's augmented views, [N, V, D]."""
    return f"{features(encoder)}_views"


# layers
EXPECTED = "expected"
STD = "std"
QUANTILES = {0.05: "q05", 0.5: "q50", 0.95: "q95"}  # where several paths were drawn

# var: one row a gene
GENE_IDS = "gene_ids"  # "" where unknown
HELDOUT_PCC = "heldout_pcc"  # mean over sections left out
HELDOUT_PCC_MIN = "heldout_pcc_min"  # on the worst of them
RELIABLE = "reliable"  # bool; see genar.reliability
TRAIN_MEAN = "train_mean"


def group(scale: int) -> str:
    """Return the ``var`` column that holds each gene's group at the scale with ``scale`` groups."""
    return f"group_{scale}"


# uns["spatial"][library_id]
IMAGES = "images"
HIRES = "hires"
LOWRES = "lowres"
SCALEFACTORS = "scalefactors"
HIRES_SCALE = "tissue_hires_scalef"
LOWRES_SCALE = "tissue_lowres_scalef"
SPOT_DIAMETER = "spot_diameter_fullres"
FIDUCIAL_DIAMETER = "fiducial_diameter_fullres"
METADATA = "metadata"
TISSUE_MASK = "tissue_mask"  # bool [h, w], as wide as the lowres image

# uns["spatial"][library_id]["metadata"]
SOURCE_IMAGE = "source_image_path"
CHEMISTRY = "chemistry_description"
SOFTWARE = "software_version"
MPP = "mpp"
MPP_SOURCE = "mpp_source"
SLIDE_NAME = "slide_name"
SLIDE_WIDTH = "slide_width"
SLIDE_HEIGHT = "slide_height"
BOUNDS_X = "bounds_x"  # top left corner of the scanned area in level-0 px, from which QuPath counts
BOUNDS_Y = "bounds_y"
SPOT_UM = "spot_um"
PITCH_UM = "pitch_um"
LATTICE = "lattice"
TILE_UM = "tile_um"
TISSUE_SOURCE = "tissue_source"  # where tissue was taken to be: "auto", "none" (everywhere), or a file's path
ENCODER_FINGERPRINT = "encoder_fingerprint"  # see fingerprint(), and an attribute of files of features
FEATURES_SOURCE = "features_path"  # the file that another program's features were read from
DATA = "data_path"  # the file or folder that a measured section was read from
COUNTS_SOURCE = "counts_source"  # where its raw counts were found: "X", "raw", "layers/<name>" or a file's name
PATCHES = "patches_path"  # HEST: a file of tiles, where there is no image to cut them from
SECTION_NAME = "section_name"  # as it was given, where the library id may not have all its letters
PATIENT_SOURCE = "patient_source"  # where the patient comes from
ONCOTREE = "oncotree_code"
TECHNOLOGY = "st_technology"


def fingerprint(encoder: str) -> str:
    """Return the metadata's key of an encoder's features of a fixed picture, float32 [16]."""
    return f"{ENCODER_FINGERPRINT}_{encoder.replace('/', '_')}"


# uns
GENAR = "genar"
MODEL_CARD = "model_card"  # in uns["genar"]: Markdown

# obs of a table in a SpatialData store, as spatialdata-io's reader of Visium names them
REGION = "region"
SPOT_ID = "spot_id"
