"""UpSampling."""

from __future__ import annotations

from tests.cases import Sample

SAMPLES = [
    Sample("UpSampling", ((2, 3, 4, 2),), {"scale": 2, "sample_type": "nearest"}),
    Sample("UpSampling", ((2, 1, 1, 2),), {"scale": 3, "sample_type": "nearest"}),
    Sample("UpSampling", ((1, 2, 3, 3),), {"scale": 1, "sample_type": "nearest"}),
    Sample("UpSampling", ((2, 3, 2, 3), (2, 2, 4, 6)), {"scale": 4, "sample_type": "nearest"}),
    Sample("UpSampling", ((2, 3, 2, 3), (2, 3, 4, 6), (2, 3, 2, 3)),
           {"scale": 2, "sample_type": "nearest", "multi_input_mode": "sum"}),
    *(Sample("UpSampling", {"data": (2, 3, 4, 3), "weight": (3, 1, size, size)},
             {"scale": scale, "sample_type": "bilinear", "num_filter": 3, "num_args": 2})
      for scale, size in ((1, 1), (2, 4), (3, 5))),
    Sample("UpSampling", ((1, 2, 3),), {"scale": 2, "sample_type": "nearest"},
           error="expected 4 dimensions"),
    Sample("UpSampling", ((1, 2, 3, 3),), {"scale": 0, "sample_type": "nearest"},
           error="scale is 0"),
    Sample("UpSampling", ((1, 2, 3, 3), (1, 2, 4, 3)), {"scale": 4, "sample_type": "nearest"},
           error="arg1 has shape .*whole fraction"),
    Sample("UpSampling", ((1, 2, 2, 2), (1, 3, 4, 4)),
           {"scale": 4, "sample_type": "nearest", "multi_input_mode": "sum"},
           error="arg1 has 3 channels"),
    Sample("UpSampling", {"data": (1, 3, 4, 4), "weight": (3, 1, 5, 5)},
           {"scale": 2, "sample_type": "bilinear", "num_filter": 3}, error="weight has shape"),
]  # fmt: skip
