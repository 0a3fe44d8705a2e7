#!/usr/bin/env python3
"""Generates `data/table.bin`: one vector for each word piece of all-MiniLM-L6-v2.

The model embeds many short texts. Then the vectors of the pieces are fitted so that the mean of a
text's pieces has the direction of the model's vector of the text. Needs numpy only. On one machine
the result is reproducible to the byte; another processor may round a few numbers differently.

  corpus.py OUT.txt ...                 collect texts, one per line
  distil.py teach MODEL IN.txt OUT.npz  the model's vectors of these texts (about 20 minutes of CPU)
  distil.py train MODEL IN.npz OUT.bin  fit the pieces and write the table (about 2 minutes)
  distil.py plain MODEL OUT.bin         embed each piece alone, as a baseline
  distil.py reference MODEL OUT.txt     vectors of a few texts, to test other implementations

MODEL is a folder with model.safetensors and tokenizer.json.
"""

import json
import os
import struct
import sys
import unicodedata
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a fixed order of summation
import numpy as np  # noqa: E402

DIMENSION = 256
FORMAT = 1
CLS, SEP = 101, 102
TEACHER_TOKENS = 96  # maximum tokens of a text for teaching

# ---------------------------------------------------------------- tokenizer


def vocabulary(model):
    names = json.load(open(os.path.join(model, "tokenizer.json")))["model"]["vocab"]
    return sorted(names, key=names.get)


class Tokenizer:
    """Splits texts into pieces. With `keep_punctuation` it does as the model's own tokenizer."""

    def __init__(self, names, keep_punctuation):
        self.ids = {name: i for i, name in enumerate(names)}
        self.keep_punctuation = keep_punctuation
        self.cache = {}

    def word(self, word):
        if word not in self.cache:
            self.cache[word] = self.longest(word)
        return self.cache[word]

    def longest(self, word):
        out, start = [], 0
        if len(word) > 100:
            return out
        while start < len(word):
            for end in range(len(word), start, -1):
                i = self.ids.get(("##" if start else "") + word[start:end])
                if i is not None:
                    break
            else:
                return []
            out.append(i)
            start = end
        return out

    def text(self, text):
        bare = unicodedata.normalize("NFD", text.lower())
        bare = "".join(c for c in bare if not unicodedata.category(c).startswith("M"))
        out, word = [], ""
        for c in bare + " ":
            if c.isalnum() and not "\u4e00" <= c <= "\u9fff":
                word += c
                continue
            if word:
                out += self.word(word)
                word = ""
            if c.isalnum() or (self.keep_punctuation and not c.isspace()):
                out += self.word(c)
        return out


# ---------------------------------------------------------------- model


def safetensors(path):
    raw = open(path, "rb").read()
    (size,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, info in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__" or info["dtype"] != "F32":
            continue
        start, end = info["data_offsets"]
        flat = np.frombuffer(raw[8 + size + start : 8 + size + end], "<f4")
        out[name] = flat.reshape(info["shape"])
    return out


class Model:
    HEADS = 12

    def __init__(self, folder, exact):
        w = safetensors(os.path.join(folder, "model.safetensors"))
        self.exact = exact
        self.words = w["embeddings.word_embeddings.weight"]
        self.positions = w["embeddings.position_embeddings.weight"]
        self.positions = self.positions + w["embeddings.token_type_embeddings.weight"][0]
        self.first = self.read_norm(w, "embeddings.LayerNorm")
        self.layers = []
        for i in range(6):
            prefix = f"encoder.layer.{i}."
            attention = prefix + "attention.self."
            qkv = [self.read_linear(w, attention + n) for n in ("query", "key", "value")]
            self.layers.append((
                (np.hstack([m for m, _ in qkv]), np.hstack([b for _, b in qkv])),
                self.read_linear(w, prefix + "attention.output.dense"),
                self.read_norm(w, prefix + "attention.output.LayerNorm"),
                self.read_linear(w, prefix + "intermediate.dense"),
                self.read_linear(w, prefix + "output.dense"),
                self.read_norm(w, prefix + "output.LayerNorm"),
            ))

    @staticmethod
    def read_linear(w, name):
        return np.ascontiguousarray(w[name + ".weight"].T), w[name + ".bias"]

    @staticmethod
    def read_norm(w, name):
        return w[name + ".weight"], w[name + ".bias"]

    @staticmethod
    def norm(x, weights):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * weights[0] + weights[1]

    def gelu(self, x):
        if not self.exact:  # by tanh: error at most 0.0005, and much faster
            y = x * x
            y *= np.float32(0.044715 * 0.7978845608)
            y += np.float32(0.7978845608)
            y *= x
            np.tanh(y, out=y)
            y += 1
            y *= x
            y *= np.float32(0.5)
            return y
        z = np.abs(x.astype("f8")) / np.sqrt(2.0)  # erf by a rational approximation, error 2e-7
        t = 1 / (1 + 0.3275911 * z)
        tail = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t
        erf = np.sign(x) * (1 - (tail + 0.254829592) * t * np.exp(-z * z))
        return (0.5 * x * (1 + erf)).astype("f4")

    def hidden(self, ids):
        """Outputs of the last layer for the pieces of texts of equal length."""
        count, length = ids.shape
        x = self.norm(self.words[ids] + self.positions[:length], self.first).reshape(-1, 384)
        for (mix, bias), out, norm1, up, down, norm2 in self.layers:
            y = (x @ mix + bias).reshape(count, length, 3, self.HEADS, 32)
            q, k, v = (y[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
            a = np.matmul(q, k.transpose(0, 1, 3, 2)) * np.float32(32**-0.5)
            a = np.exp(a - a.max(-1, keepdims=True))
            a /= a.sum(-1, keepdims=True)
            y = np.matmul(a, v).transpose(0, 2, 1, 3).reshape(-1, 384)
            x = self.norm(x + (y @ out[0] + out[1]), norm1)
            y = self.gelu(x @ up[0] + up[1])
            x = self.norm(x + (y @ down[0] + down[1]), norm2)
        return x.reshape(count, length, 384)


def blocks(lists, tokens=1024):
    """Yields indices of lists of equal length, with at most `tokens` tokens per block."""
    order = sorted(range(len(lists)), key=lambda i: (len(lists[i]), i))
    block = []
    for i in order:
        size = len(lists[i])
        if block and (len(lists[block[0]]) != size or (len(block) + 1) * size > tokens):
            yield block
            block = []
        block.append(i)
    if block:
        yield block


def encode(model, lists, exact=False):
    """Returns the unit vectors of the lists; by piece the sum of its outputs, and their number."""
    model = Model(model, exact)
    out = np.zeros((len(lists), 384), "f4")
    sums, counts = np.zeros((len(model.words), 384), "f4"), np.zeros(len(model.words), "f4")
    for block in blocks(lists):
        ids = np.array([[CLS] + lists[i] + [SEP] for i in block])
        hidden = model.hidden(ids)
        mean = hidden.mean(1)
        out[block] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        np.add.at(sums, ids.ravel(), hidden.reshape(-1, 384))
        np.add.at(counts, ids.ravel(), 1)
    return out, sums, counts


# ---------------------------------------------------------------- teaching


def teach_part(job):
    model, lists = job
    return encode(model, lists)


def teach(model, source, out):
    texts = open(source, encoding="utf-8").read().splitlines()
    tokenizer = Tokenizer(vocabulary(model), True)
    lists = [tokenizer.text(text)[:TEACHER_TOKENS] for text in texts]
    jobs = [(model, lists[i::2]) for i in range(2)]
    vectors = np.zeros((len(texts), 384), "f4")
    sums = counts = 0
    with ProcessPoolExecutor(2) as pool:
        for i, (part, part_sums, part_counts) in enumerate(pool.map(teach_part, jobs)):
            vectors[i::2], sums, counts = part, sums + part_sums, counts + part_counts
    np.savez(out, texts=np.array("\n".join(texts)), vectors=vectors, said=sums, seen=counts)


# ---------------------------------------------------------------- table


def principal_axes(vectors, dimension=DIMENSION):
    """Principal axes of the vectors as columns of a matrix. Their signs are normalized."""
    _, directions = np.linalg.eigh((vectors.T @ vectors).astype("f8"))
    directions = directions[:, ::-1][:, :dimension]
    strongest = directions[np.abs(directions).argmax(0), np.arange(dimension)]
    return (directions * np.sign(strongest)).astype("f4")


def frequency_weights(count):
    """Smooth inverse frequency: the more frequent a piece is, the lower its weight."""
    share = count / count.sum()
    return (1e-3 / (1e-3 + share)).astype("f4")[:, None]


def is_word_piece(names):
    """True for pieces that `Tokenizer` returns: no punctuation, no special pieces."""
    return np.array([n.removeprefix("##").isalnum() and n.isascii() for n in names])


def plain(model, out):
    names = vocabulary(model)
    vectors, _, _ = encode(model, [[i] for i in range(len(names))])
    vectors -= vectors.mean(0)
    rank = np.arange(1, len(names) + 1, dtype="f4")  # sorted by frequency: Zipf's law
    pack(names, vectors @ principal_axes(vectors) * frequency_weights(1 / rank), out)


class TrainingSet:
    """The pieces of each text and its goal, the direction of the model's vector."""

    def __init__(self, model, names, file):
        tokenizer = Tokenizer(names, False)
        texts = [tokenizer.text(text) for text in str(file["texts"]).split("\n")]
        keep = [i for i, text in enumerate(texts) if len(text) >= 2]
        self.pieces = [np.array(texts[i]) for i in keep]
        vectors = file["vectors"][keep]
        vectors = vectors - vectors.mean(0)
        rotation = principal_axes(vectors)
        self.goals = vectors @ rotation
        self.goals /= np.linalg.norm(self.goals, axis=1, keepdims=True)

        # A piece starts with the model's mean output for it, in all texts and alone, with the weight
        # of its frequency.
        alone, _, _ = encode(model, [[i] for i in range(len(names))])
        sums, counts = file["said"], file["seen"][:, None]
        size = np.linalg.norm(sums / np.maximum(counts, 1), axis=1)[counts[:, 0] > 20].mean()
        start = (sums + 5 * size * alone) / (counts + 5) / size
        count = np.bincount(np.concatenate(self.pieces), minlength=len(names)) + 1
        self.start = (start - start.mean(0)) @ rotation * frequency_weights(count)


def gradient(vectors, goals, sharpness=20):
    """Gradient that moves unit vectors to their goals, and makes two of them as similar as their
    goals are."""

    def similarity(x):
        near = x @ x.T * sharpness
        np.fill_diagonal(near, -1e9)
        near = np.exp(near - near.max(1, keepdims=True))
        return near / near.sum(1, keepdims=True)

    error = similarity(vectors) - similarity(goals)
    return (error + error.T) @ vectors - goals


def fit(texts, epochs=4, batch=1024, rate=2e-3):
    """Fits the vectors of the pieces with Adam."""
    rows = texts.start.astype("f4")
    first, second = np.zeros_like(rows), np.zeros_like(rows)
    random = np.random.default_rng(1)
    rounds = len(texts.pieces) // batch
    for step in range(epochs * rounds):
        if step % rounds == 0:
            order = random.permutation(len(texts.pieces))
        chosen = order[step % rounds * batch :][:batch]
        lists = [texts.pieces[i] for i in chosen]
        sizes = np.array([len(x) for x in lists])
        ids = np.concatenate(lists)
        sums = np.add.reduceat(rows[ids], np.cumsum(sizes) - sizes, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-9
        sums /= lengths
        move = gradient(sums, texts.goals[chosen])
        move = (move - (move * sums).sum(1, keepdims=True) * sums) / lengths

        sort = np.argsort(ids, kind="stable")
        # A batch uses a few pieces only; the others stay unchanged.
        used, starts = np.unique(ids[sort], return_index=True)
        move = np.add.reduceat(move[np.repeat(np.arange(batch), sizes)[sort]], starts, axis=0)
        first[used] = 0.9 * first[used] + 0.1 * move
        second[used] = 0.99 * second[used] + 0.01 * move * move
        # Warm-up, then a linear decay.
        step_rate = rate * min(1, step / 20) * (1 - step / (epochs * rounds))
        rows[used] -= step_rate * first[used] / (np.sqrt(second[used]) + 1e-8)
    return rows


def train(model, source, out):
    names = vocabulary(model)
    pack(names, fit(TrainingSet(model, names, np.load(source))), out)


def fnv1a(name):
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def pack(names, rows, out):
    """Writes the file that src/vector_table.rs describes and reads in place."""
    keep = [i for i, is_kept in enumerate(is_word_piece(names)) if is_kept]
    rows, names = rows[keep], [names[i] for i in keep]
    scale = np.maximum(np.abs(rows).max(1) / 127, 1e-12).astype("<f4")
    numbers = np.clip(np.rint(rows / scale[:, None]), -127, 127).astype("i1")
    slots = np.full(1 << 16, 0xFFFF, "<u2")
    for i, name in enumerate(names):
        slot = fnv1a(name) & 0xFFFF
        while slots[slot] != 0xFFFF:
            slot = (slot + 1) & 0xFFFF
        slots[slot] = i
    strings = [name.encode() for name in names]
    ends = np.cumsum([0] + [len(s) for s in strings], dtype="<u4")
    longest = max(len(s) for s in strings)
    head = struct.pack("<8s6I", b"RQLTABLE", FORMAT, len(names), DIMENSION, len(slots), longest, 0)
    with open(out, "wb") as file:
        for part in (head, slots, ends, scale, numbers):
            file.write(bytes(part) if isinstance(part, bytes) else part.tobytes())
        file.write(b"".join(strings))


REFERENCE = [
    "sign in",
    "The archive writer shall compress each record of a file when its caller asks for it.",
    "REQ-048: get_user_story() fails with HTTP 404, naïvely retried 3x… (see §2.1)!",
    "Ships cross the northern ocean in winter, when the ice is thick and the nights are long; "
    "their captains wait for weeks in harbours along the coast, trade furs, timber and news, and "
    "write letters home that will not arrive before the thaw, if they arrive at all.",
]


def reference(model, out):
    tokenizer = Tokenizer(vocabulary(model), True)
    vectors, _, _ = encode(model, [tokenizer.text(text) for text in REFERENCE], exact=True)
    with open(out, "w", encoding="utf-8") as file:
        for text, vector in zip(REFERENCE, vectors):
            file.write(text + "\n" + " ".join(f"{x:.5f}" for x in vector) + "\n")


if __name__ == "__main__":
    commands = {command.__name__: command for command in (teach, train, plain, reference)}
    commands[sys.argv[1]](*sys.argv[2:])
