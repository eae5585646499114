"""Parameters of PyTorch for a symbol: `from_torch`.

Names differ everywhere, so layers are matched by structure: both sides are put into one order of
computation, and match if kinds and shapes do at every position.  What is then still uncertain, or
does not fit, is an error that lists all of it; nothing is guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .. import ndarray as nd
from ..base import Array, MXNetError, did_you_mean
from ..context import cpu
from ..ndarray import NDArray
from ..symbol import Symbol
from .symbol_layers import SymbolLayer, fits, interchangeable, layers_of
from .torch_modules import StateDict, TorchModule, modules_of, read_state_dict

__all__ = ["UnmatchedLayers", "from_torch"]

TOLERANCE = 1e-4
"""Tolerance of outputs, relative to the largest: float32 sums of thousands of products, through all
layers of a network, differ by some 1e-6 to 1e-5 with their order."""

Params = dict[str, NDArray]
Mapped = Mapping[str, "str | None"]
Module: TypeAlias = Any  # type: ignore[explicit-any]
"""A `torch.nn.Module`: the package need not be installed."""


class UnmatchedLayers(MXNetError, ValueError):
    """A state dict whose tensors cannot be matched with the parameters of a symbol for certain."""


def from_torch(state_dict: StateDict | Module, symbol: Symbol, mapping: Mapped | None = None,
               shapes: Mapping[str, tuple[int, ...]] | None = None, verify: bool = True
               ) -> tuple[Params, Params]:
    """Make a symbol's parameters and auxiliary states, by name, of a state dict of PyTorch.

    Parameters
    ----------
    state_dict : dict of str to tensor, str, or torch.nn.Module
        Tensors or NumPy arrays by name; the name of a ``.safetensors`` file with them; or the
        module itself.
    symbol : Symbol
        The same network, in any names.
    mapping : dict of str to str, optional
        What shall not be inferred: the name of a module, such as ``"layer1.0.conv1"``, or of a
        tensor, and the name of the symbol's node, or parameter. None leaves a module or tensor
        out.
    shapes : dict of str to tuple of int, optional
        Shapes of the symbol's inputs, from which those of all parameters follow.
    verify : bool, default True
        Whether to compare the outputs of a `torch.nn.Module` and of the symbol for random inputs of
        `shapes`. Where the symbol ends in a softmax, it is what that reads.

    Raises
    ------
    UnmatchedLayers
        If something is left over on either side, does not fit or could be matched otherwise; lists
        all of it by name.
    MXNetError
        If the outputs differ.

    Notes
    -----
    Batch norm's weight, bias, running_mean and running_var become gamma, beta, moving_mean and
    moving_var; num_batches_tracked is ignored. A bias that only the symbol has becomes 0. A
    weight other than 1 does not fit a BatchNorm with ``fix_gamma=True``, which would ignore it.
    A state dict does not tell epsilons, strides or paddings: pass the module to verify them.

    Examples
    --------
    >>> import numpy as np
    >>> state_dict = {"fc.weight": np.ones((2, 3)), "fc.bias": np.zeros(2)}
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="output")
    >>> arg_params, aux_params = mx.convert.from_torch(state_dict, net)
    >>> sorted(arg_params)
    ['output_bias', 'output_weight']
    """
    module = state_dict if hasattr(state_dict, "state_dict") else None
    arrays = read_state_dict(state_dict if module is None else module.state_dict())
    problems: list[str] = []
    tensors: dict[str, Array] = {}
    matcher = _Matcher(symbol, shapes or {}, problems)
    matcher.apply(mapping or {}, arrays, tensors)
    for torch_module, layer in matcher.pairs(modules_of(arrays)):
        tensors |= _converted(torch_module, layer, problems)
    params = _finished(symbol, tensors, shapes or {}, problems)
    if problems:
        raise UnmatchedLayers("from_torch: " + "\n  ".join([f"{len(problems)} problem(s):",
                                                            *problems]))
    states = set(symbol.list_auxiliary_states())
    arg_params = {name: array for name, array in params.items() if name not in states}
    aux_params = {name: array for name, array in params.items() if name in states}
    if module is not None and shapes and verify:
        _compare_outputs(module, symbol, params, shapes)
    return arg_params, aux_params


# -- matching -----------------------------------------------------------------------------------


class _Matcher:
    """Layers of a symbol that have no parameters yet."""

    def __init__(self, symbol: Symbol, shapes: Mapping[str, tuple[int, ...]], problems: list[str]):
        self.layers, nodes = layers_of(symbol, shapes)
        self.problems = problems
        self.uncertain = [(self.layers[first], self.layers[second], is_sum) for
                          first, second, is_sum in interchangeable(symbol, self.layers, nodes)]
        self.parameters = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}

    def apply(self, mapping: Mapped, arrays: dict[str, Array], tensors: dict[str, Array]) -> None:
        """Take what is given explicitly out of `arrays` and of the layers."""
        modules = {module.name: module for module in modules_of(arrays)}
        layers = {layer.name: layer for layer in self.layers}
        counts = Counter(layer.name for layer in self.layers)
        for source, target in mapping.items():
            if source in arrays and (target is None or target in self.parameters):
                array = arrays.pop(source)
                if target is not None:
                    tensors[target] = array
            elif source in modules and counts[target or ""] > 1:
                self.problems.append(f"mapping {source!r}: {target!r}: {counts[target or '']} "
                                     "layers have this name; map the module's arrays to their "
                                     "parameters")
            elif source in modules and (target is None or target in layers):
                for leaf in modules[source].arrays:
                    arrays.pop(f"{source}.{leaf}" if source else leaf, None)
                if target is not None:
                    tensors |= _converted(modules[source], layers[target], self.problems)
            else:
                known = [*arrays, *modules] if source not in {*arrays, *modules} else [
                    *self.parameters, *layers]
                wrong = source if source not in {*arrays, *modules} else target
                self.problems.append(f"mapping {source!r}: {target!r}: there is no {wrong!r}"
                                     f"{did_you_mean(str(wrong), known)}")
        self.layers = [layer for layer in self.layers
                       if tensors.keys().isdisjoint(layer.names.values())]

    def pairs(self, modules: Sequence[TorchModule]) -> list[tuple[TorchModule, SymbolLayer]]:
        """Modules with their layers; the others become problems."""
        of_layers = [one for one in modules if any(_can_be(one, layer) for layer in self.layers)]
        layers = [layer for layer in self.layers if any(_can_be(one, layer) for one in modules)]
        self.problems += [f"{one} fits no layer of the symbol that is left; give its name in "
                          "mapping, or None to leave it out"
                          for one in modules if one not in of_layers]
        self.problems += [f"layer {layer} fits no module of the state dict that is left"
                          for layer in self.layers if layer not in layers]
        if len(of_layers) == len(layers) and all(map(_can_be, of_layers, layers)):
            pairs = list(zip(of_layers, layers, strict=True))
            self._report_uncertain(pairs)
            return pairs
        return self._unique(of_layers, layers)

    def _report_uncertain(self, pairs: Sequence[tuple[TorchModule, SymbolLayer]]) -> None:
        modules = {id(layer): module for module, layer in pairs}
        for first, second, is_sum in self.uncertain:
            one, other = modules.get(id(first)), modules.get(id(second))
            if one and other and not (is_sum and other.block and not one.block):
                self.problems.append(
                    f"{one.name!r} and {other.name!r} are in branches that meet, and could be "
                    f"layers {first.name!r} and {second.name!r} in either order; give both in "
                    "mapping")

    def _unique(self, modules: Sequence[TorchModule], layers: Sequence[SymbolLayer]
                ) -> list[tuple[TorchModule, SymbolLayer]]:
        """Where orders differ: the modules that fit one layer which nothing else fits."""
        pairs = []
        for one in modules:
            can = [layer for layer in layers if _can_be(one, layer)]
            if len(can) == 1 and sum(_can_be(other, can[0]) for other in modules) == 1:
                pairs.append((one, can[0]))
            else:
                names = ", ".join(repr(layer.name) for layer in can[:6])
                more = f" and {len(can) - 6} more" if len(can) > 6 else ""
                self.problems.append(f"{one} could be {names}{more}: the orders differ; give it in "
                                     "mapping")
        return pairs


def _can_be(module: TorchModule, layer: SymbolLayer) -> bool:
    if module.kind != layer.kind:
        return False
    if module.kind == "scale" and module.shape == (1,):    # one slope for all channels
        return True
    return fits(layer.shape, module.shape)


# -- values -------------------------------------------------------------------------------------


def _converted(module: TorchModule, layer: SymbolLayer, problems: list[str]) -> dict[str, Array]:
    """The arrays of a layer by the names of the symbol's parameters."""
    arrays = dict(module.arrays)
    channels = module.shape[:1]
    if layer.kind in ("norm", "affine"):
        arrays.setdefault("weight", np.ones(channels, np.float32))
        arrays.setdefault("bias", np.zeros(channels, np.float32))
    if "bias" in layer.names and "bias" not in arrays:
        arrays["bias"] = np.zeros(layer.shapes["bias"] or channels, arrays["weight"].dtype)
    if layer.fix_gamma and "weight" in arrays and not (arrays["weight"] == 1).all():
        problems.append(f"layer {layer.name!r} is a BatchNorm with fix_gamma=True, which ignores "
                        f"the weight of {module.name!r}, and that is not 1; make the symbol with "
                        "fix_gamma=False")
    problems += [f"{module.name!r} has {leaf}, and layer {layer.name!r} has not"
                 for leaf in arrays if leaf not in layer.names]
    return {name: arrays[role] for role, name in layer.names.items() if role in arrays}


def _finished(symbol: Symbol, tensors: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]],
              problems: list[str]) -> Params:
    """NDArrays of the shapes that the symbol has; what is missing or does not fit is a problem."""
    params: Params = {}
    try:
        expected = _expected_shapes(symbol, shapes)
    except MXNetError as error:
        problems.append(str(error))
        expected = {}
    for name, array in tensors.items():
        shape = expected.get(name) or array.shape
        if 0 in shape or array.shape == shape:
            shape = array.shape
        elif array.size == 1:
            array = np.broadcast_to(array.reshape(()), shape)
        elif array.size != np.prod(shape):
            problems.append(f"{name!r} is given shape {array.shape}, the symbol expects {shape}")
            continue
        params[name] = NDArray(np.array(array.reshape(shape)), cpu())
    missing = [name for name in (*symbol.list_arguments(), *symbol.list_auxiliary_states())
               if name not in tensors and _is_parameter(name, symbol, shapes)]
    if missing and not problems:
        problems.append(f"nothing is left for {', '.join(missing)}; give tensors in mapping, or "
                        "the shapes of inputs")
    return params


def _expected_shapes(symbol: Symbol, shapes: Mapping[str, tuple[int, ...]]
                     ) -> dict[str, tuple[int, ...]]:
    args, _, auxs = symbol.infer_shape_partial(**dict(shapes))
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    return dict(zip(names, [*args, *auxs], strict=True))


def _is_parameter(name: str, symbol: Symbol, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a variable is a parameter: not an input, whose shape is given, nor a label."""
    if name.endswith("_label") or name in shapes:
        return False
    layers, _ = layers_of(symbol, shapes)
    return bool(shapes) or any(name in layer.names.values() for layer in layers)


# -- verification -------------------------------------------------------------------------------


def _compare_outputs(module: Module, symbol: Symbol, params: Params,
                     shapes: Mapping[str, tuple[int, ...]]) -> None:
    """MXNetError unless the symbol computes what the module does."""
    import torch

    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(shape).astype(np.float32)
              for name, shape in shapes.items()}
    was_training = module.training
    module.eval()
    with torch.no_grad():
        expected = module(*(torch.from_numpy(array) for array in inputs.values()))
    module.train(was_training)
    expected = (expected[0] if isinstance(expected, (tuple, list)) else expected).numpy()
    output = _output(symbol, {**params, **{name: nd.array(array) for name, array
                                           in inputs.items()}})
    if output.shape != expected.shape:
        raise MXNetError(f"from_torch: the module's output has shape {expected.shape}, the "
                         f"symbol's {output.shape}; verify=False leaves out this comparison")
    error = float(np.abs(output - expected).max() / max(float(np.abs(expected).max()), 1e-30))
    if not error <= TOLERANCE:
        raise MXNetError(f"from_torch: outputs differ by {error:.2g} of the largest, expected at "
                         f"most {TOLERANCE}: strides, paddings, pooling or the epsilons of batch "
                         "norm may be others; verify=False leaves out this comparison")


def _output(symbol: Symbol, arrays: Params) -> Array:
    """The first output, before a softmax."""
    head = symbol[0]
    if head.entries[0].node.op_name in ("SoftmaxOutput", "softmax", "SoftmaxActivation"):
        children = head.get_children()
        assert children is not None
        head = children[0]
    names, states = head.list_arguments(), head.list_auxiliary_states()
    executor = head.bind(cpu(), {name: arrays[name] for name in names}, grad_req="null",
                         aux_states={name: arrays[name] for name in states}, numpy_first=False)
    return executor.forward()[0].asnumpy()
