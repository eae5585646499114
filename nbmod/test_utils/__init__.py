"""Utilities for users' own tests: random arrays, comparisons, checks of symbols.

    tolerance    default context, type and tolerances    arrays      random arrays and shapes
    compare      comparison of arrays and symbols        check       outputs and gradients
    consistency  across contexts and optimizers          generators  tests of random generators
    datasets     existing data files                     process     environment, stderr, retries
"""

from __future__ import annotations

from .arrays import (
    assign_each,
    assign_each2,
    collapse_sum_like,
    create_2d_tensor,
    create_vector,
    get_identity_mat,
    get_identity_mat_batch,
    new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd,
    new_orthonormal_matrix_2d,
    new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd,
    np_reduce,
    rand_coord_2d,
    rand_ndarray,
    rand_shape_2d,
    rand_shape_3d,
    rand_shape_nd,
    random_arrays,
    random_sample,
    random_uniform_arrays,
)
from .check import (
    check_numeric_gradient,
    check_symbolic_backward,
    check_symbolic_forward,
    numeric_grad,
    simple_forward,
)
from .compare import (
    almost_equal,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    checkShapes,
    compare_ndarray_tuple,
    locationError,
    same,
    same_array,
    same_symbol_structure,
)
from .consistency import DummyIter, check_consistency, check_speed, compare_optimizer
from .datasets import (
    download,
    download_model,
    get_bz2_data,
    get_cifar10,
    get_mnist,
    get_mnist_iterator,
    get_mnist_pkl,
    get_mnist_ubyte,
    get_zip_data,
)
from .generators import (
    chi_square_check,
    gen_buckets_probs_with_ppf,
    mean_check,
    var_check,
    verify_generator,
)
from .process import (
    discard_stderr,
    environment,
    has_tvm_ops,
    is_aarch64_run,
    is_cd_run,
    is_op_runnable,
    list_gpus,
    retry,
    set_env_var,
)
from .tolerance import (
    default_atols,
    default_context,
    default_dtype,
    default_numeric_eps,
    default_rtols,
    effective_dtype,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    set_default_context,
)

__all__ = [
    "DummyIter", "almost_equal", "assert_allclose", "assert_almost_equal",
    "assert_almost_equal_ignore_nan", "assert_almost_equal_with_err", "assert_exception",
    "assign_each", "assign_each2", "checkShapes", "check_consistency", "check_numeric_gradient",
    "check_speed", "check_symbolic_backward", "check_symbolic_forward", "chi_square_check",
    "collapse_sum_like", "compare_ndarray_tuple", "compare_optimizer", "create_2d_tensor",
    "create_vector", "default_atols", "default_context", "default_dtype", "default_numeric_eps",
    "default_rtols", "discard_stderr", "download", "download_model", "effective_dtype",
    "environment", "gen_buckets_probs_with_ppf", "get_atol", "get_bz2_data", "get_cifar10",
    "get_etol", "get_identity_mat", "get_identity_mat_batch", "get_mnist", "get_mnist_iterator",
    "get_mnist_pkl", "get_mnist_ubyte", "get_rtol", "get_tolerance", "get_tols", "get_zip_data",
    "has_tvm_ops", "is_aarch64_run", "is_cd_run", "is_op_runnable", "list_gpus", "locationError",
    "mean_check", "new_matrix_with_real_eigvals_2d", "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d", "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd", "np_reduce", "numeric_grad", "rand_coord_2d",
    "rand_ndarray", "rand_shape_2d", "rand_shape_3d", "rand_shape_nd", "random_arrays",
    "random_sample", "random_uniform_arrays", "retry", "same", "same_array",
    "same_symbol_structure", "set_default_context", "set_env_var", "simple_forward", "var_check",
    "verify_generator",
]
