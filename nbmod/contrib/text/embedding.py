"""Token embeddings, read from files of pre-trained vectors.

An embedding is a vocabulary with a row of `idx_to_vec` for each token; row 0 is for unknown tokens.
The files are text, with a token and the elements of its vector in each line.  `GloVe` and
`FastText` download theirs, if they are not there.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import numpy as np

from ... import ndarray as nd
from ...base import ArgumentError, CheckError, MXNetError, _as_list
from ...compat.c_interface import data_dir
from ...core import registry
from ...gluon.utils import _get_repo_file_url, download, unzip
from .names import ARCHIVES, FASTTEXT, GLOVE, archive_of
from .vocab import UNKNOWN, Vocabulary

__all__ = ["CompositeEmbedding", "CustomEmbedding", "FastText", "GloVe", "TokenEmbedding",
           "create", "get_pretrained_file_names", "register"]
__dir__ = __all__.copy

ROOT = os.path.join(data_dir(), "embeddings")


class TokenEmbedding(Vocabulary):
    """Base class of embeddings; a subclass calls `_load_embedding` in its constructor.

    Parameters
    ----------
    **kwargs
        Arguments of `Vocabulary`.
    """

    pretrained_file_names: tuple[str, ...] = ()
    """Names of the published files of this embedding."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._idx_to_vec: nd.NDArray | None = None

    @property
    def idx_to_vec(self) -> Any:
        """The vectors, an NDArray with a row for each token; None before they are loaded."""
        return self._idx_to_vec

    @property
    def vec_len(self) -> int:
        """The length of a vector; 0 before they are loaded."""
        return 0 if self._idx_to_vec is None else self._idx_to_vec.shape[1]

    def _load_embedding(self, pretrained_file_path: str, elem_delim: str,
                        init_unknown_vec: Callable[..., Any], encoding: str = "utf8") -> None:
        """Load the tokens and vectors of a file; tokens without one get the unknown vector."""
        path = os.path.expanduser(pretrained_file_path)
        vectors = _read_vectors(path, elem_delim, encoding)
        length = len(next(iter(vectors.values())))
        unknown = vectors.pop(str(self.unknown_token), None)
        if unknown is None:
            unknown = init_unknown_vec(shape=length).asnumpy()
        for token in vectors:
            if token not in self._token_to_idx:
                self._append(token)
        rows = [vectors.get(str(token), unknown) for token in self._idx_to_token]
        self._idx_to_vec = nd.array(np.stack(rows), dtype="float32")

    def _restrict(self, vocabulary: Vocabulary | None, parts: Sequence[TokenEmbedding]) -> None:
        """Adopt the tokens of a vocabulary, with the concatenated vectors of `parts`."""
        if vocabulary is None:
            return
        if not isinstance(vocabulary, Vocabulary):
            raise MXNetError(f"{type(self).__name__}: vocabulary is a {type(vocabulary).__name__}, "
                             "expected a Vocabulary")
        tokens = vocabulary.idx_to_token
        rows = [[UNKNOWN, *part.to_indices(tokens[1:])] for part in parts]
        vectors = [part._vectors()[chosen] for part, chosen in zip(parts, rows, strict=True)]
        self._unknown_token = vocabulary.unknown_token
        self._reserved_tokens = vocabulary.reserved_tokens
        self._idx_to_token = list(tokens)
        self._token_to_idx = dict(vocabulary.token_to_idx)
        self._idx_to_vec = nd.array(np.hstack(vectors))

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> nd.NDArray:
        """Return the vector of a token (vec_len,), or those of a list (len(tokens), vec_len).

        Parameters
        ----------
        tokens : str or list of str
            A token, or several.
        lower_case_backup : bool, default False
            Whether an unknown token is looked up in lower case, too.
        """
        one = not isinstance(tokens, list)
        known = self._token_to_idx
        indices = [known.get(token.lower() if lower_case_backup and token not in known else token,
                             UNKNOWN) for token in ([tokens] if one else tokens)]
        vectors = self._vectors()[indices]
        return nd.array(vectors[0] if one else vectors, dtype="float32")

    def _vectors(self) -> np.ndarray:
        if self._idx_to_vec is None:
            raise MXNetError(f"{type(self).__name__}: no vectors have been loaded")
        return self._idx_to_vec.asnumpy()

    def update_token_vectors(self, tokens: Any, new_vectors: nd.NDArray) -> None:
        """Replace the vectors of tokens.

        Parameters
        ----------
        tokens : str or list of str
            A token, or several; the unknown token has to be given by its name.
        new_vectors : NDArray
            Its vector (vec_len,), or theirs (len(tokens), vec_len).

        Raises
        ------
        CheckError
            If `new_vectors` has another shape; it is an AssertionError, too.
        ArgumentError
            For an unknown token; it is a ValueError, too.
        """
        tokens = tokens if isinstance(tokens, list) else [tokens]
        shape = (len(tokens), self.vec_len)
        fits = isinstance(new_vectors, nd.NDArray) and (
            new_vectors.shape == shape or new_vectors.shape == shape[1:] and len(tokens) == 1)
        if not fits:
            actual = getattr(new_vectors, "shape", type(new_vectors).__name__)
            raise CheckError(f"update_token_vectors: new_vectors is {actual}, expected an NDArray "
                             f"of shape {shape} for {len(tokens)} token(s)")
        for token in tokens:
            if token not in self._token_to_idx:
                raise ArgumentError(f"update_token_vectors: there is no token {token!r}; to change "
                                    f"the vector of unknown tokens name {self.unknown_token!r}")
        vectors = self._vectors()
        vectors[self.to_indices(tokens)] = new_vectors.asnumpy().reshape(shape)
        self.idx_to_vec[:] = vectors

    def _load_pretrained(self, embedding_root: str, name: str,
                         init_unknown_vec: Callable[..., Any]) -> None:
        """Load `<embedding_root>/<class name in lower case>/<name>`."""
        kind = type(self).__name__
        if name not in self.pretrained_file_names:
            raise KeyError(f"{kind}: there is no pretrained file {name}; its files are "
                           f"{', '.join(self.pretrained_file_names)}")
        path = os.path.join(os.path.expanduser(embedding_root), kind.lower(), name)
        if not os.path.isfile(path):
            try:
                _download(kind.lower(), path)
            except MXNetError as error:
                raise MXNetError(f"{kind}: {path} is not there. {error}. Without a network, copy "
                                 "it from another machine, or pass the embedding_root of the "
                                 "folder it is in") from None
        self._load_embedding(path, " ", init_unknown_vec)


_TokenEmbedding = TokenEmbedding


def _download(kind: str, path: str) -> None:
    """Take a file out of the archive that holds it, which stays beside it as it does in MXNet."""
    folder, name = os.path.split(path)
    archive = archive_of(name)
    url = _get_repo_file_url(f"gluon/embeddings/{kind}", f"{archive}.zip")
    local = download(url, os.path.join(folder, f"{archive}.zip"), sha1_hash=ARCHIVES[archive])
    unzip(local, name, path)


def _read_vectors(path: str, delim: str, encoding: str) -> dict[str, np.ndarray]:
    """Read token -> vector, in the order of the file; the first of several vectors is used.

    Lines with one number are treated as headers.  Errors name the line.
    """
    if not os.path.isfile(path):
        raise ArgumentError(f"{path}: there is no such file of pre-trained vectors")
    vectors: dict[str, np.ndarray] = {}
    with open(path, encoding=encoding) as stream:
        for number, line in enumerate(_decoded(stream, path), 1):
            token, *fields = line.rstrip().split(delim)
            vector = _numbers(f"{path}, line {number}", token, fields)
            if token in vectors:
                _warn(f"{path}, line {number}: a vector for {token!r} was there before; this one "
                      "is skipped")
            elif len(vector) == 1:
                _warn(f"{path}, line {number}: {token!r} with one number is likely a header and "
                      "is skipped")
            elif vectors and len(vector) != len(next(iter(vectors.values()))):
                raise CheckError(f"{path}, line {number}: {len(vector)} numbers for {token!r}, "
                                 f"expected {len(next(iter(vectors.values())))} as before")
            else:
                vectors[token] = vector
    if not vectors:
        raise MXNetError(f"{path}: no line holds a token and its vector")
    return vectors


def _decoded(stream: TextIO, path: str) -> Iterator[str]:
    """The lines of a file; ArgumentError where it has another encoding."""
    try:
        yield from stream
    except UnicodeError as error:
        raise ArgumentError(f"{path}: not {stream.encoding} text: {error}; name its encoding "
                            "(encoding='latin-1', for example)") from None


def _numbers(where: str, token: str, fields: list[str]) -> np.ndarray:
    try:
        vector = np.array(fields, dtype=np.float64).astype(np.float32)
    except ValueError as error:
        raise ArgumentError(f"{where}: the vector of {token!r} is no list of numbers: {error}"
                            ) from error
    if not fields:
        raise CheckError(f"{where}: {token!r} has no vector; is the delimiter right?")
    return vector


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=5)


_register = registry.get_register_func(TokenEmbedding, "token embedding")
_create = registry.get_create_func(TokenEmbedding, "token embedding")


def register(embedding_cls: type) -> type:
    """Register a subclass of `TokenEmbedding` for `create`, as a class decorator.

    Parameters
    ----------
    embedding_cls : type
        The class.
    """
    return _register(embedding_cls)


def create(embedding_name: str, **kwargs: Any) -> TokenEmbedding:
    """Create a registered embedding.

    Parameters
    ----------
    embedding_name : str
        Name of its class, in upper or lower case.
    **kwargs
        Arguments of the class.
    """
    return _create(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """Return the names of the published files of embeddings.

    Parameters
    ----------
    embedding_name : str, optional
        Name of an embedding; None: all.

    Returns
    -------
    list of str or dict of str to list of str
        Names of its files, or a dict of them for all embeddings.

    Raises
    ------
    KeyError
        If there is no such embedding.
    """
    known = {name: list(cls.pretrained_file_names)
             for name, cls in registry.get_registry(TokenEmbedding).items()
             if issubclass(cls, TokenEmbedding)}
    if embedding_name is None:
        return known
    if embedding_name not in known:
        raise KeyError(f"there is no embedding {embedding_name!r}; there are {sorted(known)}")
    return known[embedding_name]


@register
class GloVe(TokenEmbedding):
    """GloVe vectors (Pennington et al., "GloVe: global vectors for word representation", 2014).

    Parameters
    ----------
    pretrained_file_name : str, default 'glove.840B.300d.txt'
        Name of the file, one of `pretrained_file_names`.
    embedding_root : str, default '~/.mxnet/embeddings'
        Folder that has the file in its subfolder `glove`; it is downloaded there, if it is not.
        `MXNET_HOME` replaces `~/.mxnet`.
    init_unknown_vec : callable, default nbmod.nd.zeros
        Function with a parameter `shape` that makes the vector of tokens without one.
    vocabulary : Vocabulary, optional
        Vocabulary whose tokens are kept, and no others.
    **kwargs
        Arguments of `Vocabulary`.

    Raises
    ------
    KeyError
        If the name is not known.
    MXNetError
        If the file is neither there nor can be downloaded, or its archive is damaged.
    """

    pretrained_file_names = GLOVE

    def __init__(self, pretrained_file_name: str = "glove.840B.300d.txt",
                 embedding_root: str = ROOT, init_unknown_vec: Callable[..., Any] = nd.zeros,
                 vocabulary: Vocabulary | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self._load_pretrained(embedding_root, pretrained_file_name, init_unknown_vec)
        self._restrict(vocabulary, [self])


@register
class FastText(TokenEmbedding):
    """Vectors of fastText (Bojanowski et al., "Enriching word vectors with subword information").

    Parameters
    ----------
    pretrained_file_name : str, default 'wiki.simple.vec'
        Name of the file, one of `pretrained_file_names`.
    embedding_root : str, default '~/.mxnet/embeddings'
        Folder that has the file in its subfolder `fasttext`; it is downloaded there, if it is not.
    init_unknown_vec, vocabulary, **kwargs
        As for `GloVe`.

    Raises
    ------
    KeyError
        If the name is not known.
    MXNetError
        If the file is neither there nor can be downloaded, or its archive is damaged.
    """

    pretrained_file_names = FASTTEXT

    def __init__(self, pretrained_file_name: str = "wiki.simple.vec", embedding_root: str = ROOT,
                 init_unknown_vec: Callable[..., Any] = nd.zeros,
                 vocabulary: Vocabulary | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self._load_pretrained(embedding_root, pretrained_file_name, init_unknown_vec)
        self._restrict(vocabulary, [self])


class CustomEmbedding(TokenEmbedding):
    """Vectors from any file with a token and the elements of its vector in each line.

    Parameters
    ----------
    pretrained_file_path : str
        The file.
    elem_delim : str, default ' '
        Separator of the token and the elements.
    encoding : str, default 'utf8'
        Encoding of the file.
    init_unknown_vec, vocabulary, **kwargs
        As for `GloVe`.

    Raises
    ------
    ArgumentError
        If the file does not exist or is malformed; it is a ValueError, too.
    """

    def __init__(self, pretrained_file_path: str, elem_delim: str = " ", encoding: str = "utf8",
                 init_unknown_vec: Callable[..., Any] = nd.zeros,
                 vocabulary: Vocabulary | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._restrict(vocabulary, [self])


class CompositeEmbedding(TokenEmbedding):
    """The concatenated vectors of one or several embeddings, for the tokens of a vocabulary.

    Parameters
    ----------
    vocabulary : Vocabulary
        The tokens.
    token_embeddings : TokenEmbedding or list of TokenEmbedding
        The embeddings.

    Raises
    ------
    MXNetError
        If there are none, or others than embeddings.
    """

    def __init__(self, vocabulary: Vocabulary,
                 token_embeddings: TokenEmbedding | Sequence[TokenEmbedding]):
        super().__init__()
        parts: list[Any] = _as_list(token_embeddings)
        if not parts or not all(isinstance(part, TokenEmbedding) for part in parts):
            raise MXNetError("CompositeEmbedding: token_embeddings is "
                             f"{[type(part).__name__ for part in parts]}, expected one or several "
                             "embeddings")
        self._restrict(vocabulary, parts)
