"""Expressions over `mx.contrib.text` with equal results in nbmod and MXNet; imports neither.

Each line is evaluated with `V` (Vocabulary), `T` (the module), `C` (Counter), `counter`, `nd`, and
the helpers below; `a` to `h` are files of vectors. A result is plain data, an exception "error".
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

FILES = {
    "a": "hello 0.1 0.2 0.3\nworld 1 2 3\nhello 9 9 9\n<unk> 7 7 7\nbad 1\nlast 1 2 3 \n",
    "b": "3;2\nhello;1;2\ncat;3;4\n",
    "c": "u 1 2\n",
    "d": "u 1 2\n\nv 1 2\n",
    "e": " 1 2\nu 1 2\n",
    "f": "",
    "g": "<unk> 1 2\nu 3 4\n<unk> 5 6\nw w 2\n",
    "h": "u 1 2\nv 1 2 3\n",
    "glove/glove.6B.50d.txt": "hello 1 2\nworld 3 4\n",
    "fasttext/wiki.simple.vec": "2 2\nhello 1 2 \nworld 3 4 \n",
}

LINES = """
T.utils.count_tokens_from_str(' Life is great ! \\n life is good . \\n')
T.utils.count_tokens_from_str(' Life is great ! \\n life is good . \\n', to_lower=True)
T.utils.count_tokens_from_str('a*b.c**d', r'\\*', r'\\.')
T.utils.count_tokens_from_str('a*b', '*', '|')
T.utils.count_tokens_from_str('a1b22c', '[0-9]')
T.utils.count_tokens_from_str('a b\\na', counter_to_update=C(a=5))
T.utils.count_tokens_from_str('', ' ', ' ')
vocab(V())
vocab(V(counter))
vocab(V(counter, 3))
vocab(V(counter, 4))
vocab(V(counter, 4, 2))
vocab(V(counter, None, 2, 'U', ['R', 'S']))
vocab(V(counter, reserved_tokens=['a']))
vocab(V(counter, reserved_tokens=['<unk>']))
vocab(V(counter, reserved_tokens=['q', 'q']))
vocab(V(counter, reserved_tokens=[]))
vocab(V(counter, 3, reserved_tokens=['b', 'z']))
vocab(V(counter, min_freq=0))
vocab(V(counter, 0))
vocab(V(counter, -1))
vocab(V(counter, unknown_token='a'))
vocab(V(counter, 2, unknown_token='a'))
vocab(V({'a': 1}))
vocab(V(['a']))
vocab(V(C({2: 1, 1: 1, 3: 5}), unknown_token=0))
V(counter).to_indices('a')
V(counter).to_indices(['a', 'zz', 'b'])
V(counter).to_indices([])
V(counter).to_indices(3)
V(counter).to_tokens(0)
V(counter).to_tokens([1, 2])
V(counter).to_tokens([])
V(counter).to_tokens(99)
V(counter).to_tokens([1, 99])
V(counter).to_tokens('a')
read(a)
read(b, ';')
read(b, elem_delim=';', encoding='ascii')
read(b)
read(c)
read(d)
read(e)
read(f)
read(g)
read(h)
read('none')
read(a, vocabulary=V(C(['hello', 'q'])))
read(a, init_unknown_vec=nd.ones)
read(b, ';', init_unknown_vec=nd.ones)
read(b, ';', init_unknown_vec=nd.ones, vocabulary=V(C(['hello', 'q'])))
read(b, ';', unknown_token='cat')
read(b, ';', unknown_token='cat', vocabulary=V(C(['hello', 'q']), reserved_tokens=['R']))
read(b, ';', vocabulary='hello')
own(b, ';').get_vecs_by_tokens('hello')
own(b, ';').get_vecs_by_tokens(['hello', 'no', 'Cat'])
own(b, ';').get_vecs_by_tokens(['hello', 'no', 'Cat', 'HELLO'], True)
own(b, ';').get_vecs_by_tokens('CAT', lower_case_backup=True)
own(b, ';').to_indices(['cat', 'dog'])
changed('hello', [5, 6])
changed('hello', [[5, 6]])
changed(['hello'], [5, 6])
changed(['hello'], [[5, 6]])
changed(['hello', 'cat'], [[5, 6], [7, 8]])
changed(['<unk>', 'cat'], [[5, 6], [7, 8]])
changed('<unk>', [5, 6])
changed('no', [5, 6])
changed(['hello', 'no'], [[5, 6], [7, 8]])
changed('hello', [5, 6, 7])
changed(['hello', 'cat'], [[5, 6]])
vectors(T.embedding.CompositeEmbedding(V(C(['hello', 'q', 'world'])), [own(b, ';'), own(a)]))
vectors(T.embedding.CompositeEmbedding(V(C(['hello', 'q', 'world'])), own(a)))
vectors(T.embedding.CompositeEmbedding('hello', own(a)))
vectors(T.embedding.CompositeEmbedding(V(C(['hello'])), 'a'))
T.embedding.create('glove', pretrained_file_name='x')
T.embedding.create('zzz')
T.embedding.create('customembedding', pretrained_file_path=c)
sorted(T.embedding.get_pretrained_file_names())
sorted(T.embedding.get_pretrained_file_names('glove'))
sorted(T.embedding.get_pretrained_file_names('fasttext'))
T.embedding.get_pretrained_file_names('GloVe')
vectors(registered())
""".strip().splitlines()


def answers(mx: Any) -> list[Any]:
    """The results of `mx` for every line."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = namespace(mx, folder)
        return [answer(line, known) for line in LINES]


def archives(mx: Any) -> dict[str, str]:
    """SHA-1 of the archives of published vectors; `mx` is MXNet."""
    constants = mx.contrib.text._constants
    return {**constants.GLOVE_PRETRAINED_FILE_SHA1, **constants.FAST_TEXT_ARCHIVE_SHA1}


def answer(line: str, known: dict[str, Any]) -> Any:
    """The value of a line as plain data, or "error"."""
    try:
        value = eval(line, known)
    except Exception:
        return "error"
    if hasattr(value, "asnumpy"):
        return value.asnumpy()
    return sorted(value.items()) if isinstance(value, Counter) else value


def namespace(mx: Any, folder: str) -> dict[str, Any]:
    """The names a line may use; files are written to `folder`."""
    text = mx.contrib.text
    own = text.embedding.CustomEmbedding
    paths = {}
    for name, content in FILES.items():
        path = Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        paths[name] = str(path)

    def changed(tokens: Any, new: Any) -> Any:
        embedding = own(paths["b"], ";")
        embedding.update_token_vectors(tokens, mx.nd.array(new))
        return embedding.idx_to_vec

    def registered() -> Any:
        """An embedding as users write them, created by name."""

        class MyEmbedding(text.embedding._TokenEmbedding):
            def __init__(self, path: str, **kwargs: Any):
                super().__init__(**kwargs)
                self._load_embedding(path, " ", mx.nd.ones)

        text.embedding.register(MyEmbedding)
        return text.embedding.create("MyEmbedding", path=paths["c"])

    def read(*args: Any, **kwargs: Any) -> Any:
        return vectors(own(*args, **kwargs))

    return {"mx": mx, "T": text, "V": text.vocab.Vocabulary, "C": Counter, "nd": mx.nd,
            "counter": Counter({"a": 2, "b": 3, "c": 1, "d": 3, "e": 1, "x": 2}), "own": own,
            "changed": changed, "read": read, "registered": registered, "vocab": vocab,
            "vectors": vectors, **paths}


def vocab(v: Any) -> list[Any]:
    """The complete state of a vocabulary."""
    return [v.idx_to_token, sorted(v.token_to_idx.items(), key=str), v.unknown_token,
            v.reserved_tokens, len(v)]


def vectors(embedding: Any) -> list[Any]:
    """The complete state of an embedding."""
    return [*vocab(embedding), embedding.vec_len, embedding.idx_to_vec.asnumpy()]
