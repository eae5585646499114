"""Recurrent layers by their formulas, in NumPy: the reference of the RNN operator where MXNet's
CPU has none."""

from __future__ import annotations

from typing import Any

import numpy as np

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def outputs(attrs: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Output, last h and, for lstm, last c of an RNN op with these parameters and inputs."""
    mode, ways = attrs["mode"], 1 + attrs.get("bidirectional", False)
    x, h0, c0 = (arrays.get(name) for name in ("data", "state", "state_cell"))
    assert x is not None and h0 is not None
    lengths = arrays.get("sequence_length", np.full(x.shape[1], len(x)))
    clip = attrs.get("lstm_state_clip_min"), attrs.get("lstm_state_clip_max")
    weights = _weights(attrs, x.shape[2], arrays["parameters"])
    last_h, last_c = [], []
    for layer in range(attrs["num_layers"]):
        sides = []
        for d in range(ways):
            cell = layer * ways + d
            w = {kind: weights[layer, d, kind] for kind in ("i2h", "h2h", "h2r", "bi", "bh")}
            h, c, y = h0[cell], None if c0 is None else c0[cell], np.zeros((*x.shape[:2],
                                                                           h0.shape[2]))
            for t in range(len(x)) if d == 0 else reversed(range(len(x))):
                new_h, new_c = _cell(mode, w, x[t], h, c, clip)
                alive = (t < lengths)[:, None]
                h, y[t] = np.where(alive, new_h, h), np.where(alive, new_h, 0)
                c = None if c is None else np.where(alive, new_c, c)
            sides.append(y)
            last_h.append(h)
            last_c.append(c)
        x = np.concatenate(sides, axis=2)
    return [x, np.stack(last_h), *([np.stack(last_c)] if c0 is not None else [])]


def _weights(attrs: dict[str, Any], inputs: int, vector: np.ndarray) -> dict[tuple, Any]:
    """The matrices and biases by (layer, direction, kind)."""
    size, layers = attrs["state_size"], attrs["num_layers"]
    ways, projection = 1 + attrs.get("bidirectional", False), attrs.get("projection_size", 0)
    rows, out = GATES[attrs["mode"]] * size, projection or size
    cells = [(layer, d) for layer in range(layers) for d in range(ways)]
    shapes = [(cell, kind, shape) for cell in cells for kind, shape in (
        ("i2h", (rows, out * ways if cell[0] else inputs)), ("h2h", (rows, out)),
        ("h2r", (projection, size)))]  # fmt: skip
    shapes += [(cell, kind, (rows,)) for cell in cells for kind in ("bi", "bh")]
    found, at = {}, 0
    for cell, kind, shape in shapes:
        count = int(np.prod(shape))
        found[(*cell, kind)] = vector[at:at + count].reshape(shape)
        at += count
    assert at == vector.size
    return found


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _cell(mode: str, w: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray, c: Any, clip: tuple
          ) -> tuple[np.ndarray, Any]:
    """One step of one layer."""
    a, b = x @ w["i2h"].T + w["bi"], h @ w["h2h"].T + w["bh"]
    if mode == "rnn_relu":
        return np.maximum(a + b, 0), None
    if mode == "rnn_tanh":
        return np.tanh(a + b), None
    if mode == "gru":
        (ar, az, an), (br, bz, bn) = np.split(a, 3, axis=1), np.split(b, 3, axis=1)
        z = _sigmoid(az + bz)
        return (1 - z) * np.tanh(an + _sigmoid(ar + br) * bn) + z * h, None
    i, f, u, o = np.split(a + b, 4, axis=1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(u)
    c = c if clip[0] is None else np.clip(c, *clip)
    h = _sigmoid(o) * np.tanh(c)
    return (h @ w["h2r"].T if w["h2r"].size else h), c
