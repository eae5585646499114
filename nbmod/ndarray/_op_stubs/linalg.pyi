# Written by `python docs/generate_stubs.py`.
from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import DTypeLike

from ...context import Context
from ..ndarray import NDArray
from .op import linalg_det as det
from .op import linalg_extractdiag as extractdiag
from .op import linalg_extracttrian as extracttrian
from .op import linalg_gelqf as gelqf
from .op import linalg_gemm as gemm
from .op import linalg_gemm2 as gemm2
from .op import linalg_inverse as inverse
from .op import linalg_makediag as makediag
from .op import linalg_maketrian as maketrian
from .op import linalg_potrf as potrf
from .op import linalg_potri as potri
from .op import linalg_slogdet as slogdet
from .op import linalg_sumlogdiag as sumlogdiag
from .op import linalg_syevd as syevd
from .op import linalg_syrk as syrk
from .op import linalg_trmm as trmm
from .op import linalg_trsm as trsm

__all__: list[str] = ["det", "extractdiag", "extracttrian", "gelqf", "gemm", "gemm2", "inverse",
                      "makediag", "maketrian", "potrf", "potri", "slogdet", "sumlogdiag", "syevd",
                      "syrk", "trmm", "trsm"]