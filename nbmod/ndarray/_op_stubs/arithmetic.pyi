# Written by `python docs/generate_stubs.py`.

from ..ndarray import NDArray

__all__: list[str] = ["add", "subtract", "multiply", "divide", "modulo", "power", "maximum",
                      "minimum", "equal", "not_equal", "greater", "greater_equal", "lesser",
                      "lesser_equal", "logical_and", "logical_or", "logical_xor", "true_divide"]

def add(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `add` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def subtract(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `subtract` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def multiply(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `multiply` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def divide(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `divide` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def modulo(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `modulo` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def power(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `power` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def maximum(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `maximum` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def minimum(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `minimum` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def equal(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `equal` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def not_equal(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `not_equal` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def greater(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `greater` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def greater_equal(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `greater_equal` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def lesser(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `lesser` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def lesser_equal(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `lesser_equal` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def logical_and(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `logical_and` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def logical_or(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `logical_or` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def logical_xor(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `logical_xor` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """

def true_divide(lhs: NDArray | float, rhs: NDArray | float) -> NDArray:
    """Element-wise `divide` of arrays, which broadcast, or an array and a number.

    Two numbers give a number.
    """
