"""Convolutions that do the work of the batch normalisation after them, which a frozen network need not do itself."""

from collections import Counter

from timm.layers.conv2d_same import Conv2dSame
from timm.layers.norm_act import BatchNormAct2d
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

# and no classes derived from them, which may do something else with their weights
CONVOLUTIONS, NORMS = (nn.Conv2d, Conv2dSame), (nn.BatchNorm2d, BatchNormAct2d)


class _Tracer(fx.Tracer):
    """Traces a network down to its convolutions and normalisations, whatever library they are of."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.Conv2d | nn.BatchNorm2d) or super().is_leaf_module(m, module_qualified_name)


def fuse(network: nn.Module) -> int:
    """Put each batch normalisation that directly follows a convolution into that convolution's weights.

    Which follow each other is told by tracing the network; one that cannot be traced stays as it is. What it computes
    changes by rounding alone.

    Parameters
    ----------
    network
        A network in evaluation mode; changed in place.

    Returns
    -------
    How many were fused.
    """
    if not any(isinstance(module, nn.BatchNorm2d) for module in network.modules()):
        return 0
    try:
        graph = _Tracer().trace(network)
    except (fx.proxy.TraceError, TypeError, ValueError, RuntimeError, AttributeError):
        return 0
    called = [node for node in graph.nodes if node.op == "call_module"]
    uses = Counter(node.target for node in called)
    fused = 0
    for node in called:
        before = node.args[0]
        if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) > 1:
            continue
        convolution, norm = network.get_submodule(str(before.target)), network.get_submodule(str(node.target))
        if not isinstance(convolution, nn.Conv2d) or type(convolution) not in CONVOLUTIONS:
            continue
        if not isinstance(norm, nn.BatchNorm2d) or type(norm) not in NORMS or norm.running_var is None:
            continue
        if uses[before.target] > 1 or uses[node.target] > 1:
            continue
        network.set_submodule(str(before.target), fuse_conv_bn_eval(convolution, norm))
        network.set_submodule(str(node.target), _rest(norm))
        fused += 1
    return fused


def _rest(norm: nn.BatchNorm2d) -> nn.Module:
    """Return what a normalisation does beside normalising: timm's also activate."""
    rest = [module for _, module in norm.named_children() if not isinstance(module, nn.Identity)]
    return nn.Sequential(*rest) if rest else nn.Identity()
