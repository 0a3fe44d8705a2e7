#!/usr/bin/env python3
"""Makes `data/table.bin`: one vector for each word piece of all-MiniLM-L6-v2.

The model reads many short texts; then the vectors of the pieces are fitted so that the mean over a
text's pieces points where the model's vector of that text points. Needs numpy, nothing else. On one
machine the result is the same to the byte; another processor may round a few numbers differently.

  corpus.py OUT.txt ...                 gather texts, one a line
  distil.py teach MODEL IN.txt OUT.npz  the model's vectors of these texts (about 20 minutes of CPU)
  distil.py train MODEL IN.npz OUT.bin  fit the pieces and write the table (about 2 minutes)
  distil.py plain MODEL OUT.bin         each piece through the model alone, for comparison
  distil.py reference MODEL OUT.txt     vectors of a few texts, to hold other implementations to

MODEL is a folder with model.safetensors and tokenizer.json.
"""

import json
import os
import struct
import sys
import unicodedata
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the same sums in the same order
import numpy as np  # noqa: E402

DIMENSION = 256
FORMAT = 1
CLS, SEP = 101, 102
TEACHER_TOKENS = 96  # of a text, for teaching; what is longer is cut

# ---------------------------------------------------------------- pieces


def pieces(model):
    vocabulary = json.load(open(os.path.join(model, "tokenizer.json")))["model"]["vocab"]
    return sorted(vocabulary, key=vocabulary.get)


class Pieces:
    """Cuts a text into pieces. `marks` keeps punctuation, as the model's own tokenizer does."""

    def __init__(self, names, marks):
        self.ids = {name: i for i, name in enumerate(names)}
        self.marks = marks
        self.known = {}

    def word(self, word):
        if word not in self.known:
            self.known[word] = self.longest(word)
        return self.known[word]

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
            if c.isalnum() or (self.marks and not c.isspace()):
                out += self.word(c)
        return out


# ---------------------------------------------------------------- the model


def safetensors(path):
    raw = open(path, "rb").read()
    (size,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, about in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__" or about["dtype"] != "F32":
            continue
        start, end = about["data_offsets"]
        flat = np.frombuffer(raw[8 + size + start : 8 + size + end], "<f4")
        out[name] = flat.reshape(about["shape"])
    return out


class Model:
    HEADS = 12

    def __init__(self, folder, exact):
        w = safetensors(os.path.join(folder, "model.safetensors"))
        self.exact = exact
        self.words = w["embeddings.word_embeddings.weight"]
        self.places = w["embeddings.position_embeddings.weight"]
        self.places = self.places + w["embeddings.token_type_embeddings.weight"][0]
        self.first = self.norm_of(w, "embeddings.LayerNorm")
        self.layers = []
        for i in range(6):
            at = f"encoder.layer.{i}."
            qkv = [self.linear_of(w, at + "attention.self." + n) for n in ("query", "key", "value")]
            self.layers.append((
                (np.hstack([m for m, _ in qkv]), np.hstack([b for _, b in qkv])),
                self.linear_of(w, at + "attention.output.dense"),
                self.norm_of(w, at + "attention.output.LayerNorm"),
                self.linear_of(w, at + "intermediate.dense"),
                self.linear_of(w, at + "output.dense"),
                self.norm_of(w, at + "output.LayerNorm"),
            ))

    @staticmethod
    def linear_of(w, name):
        return np.ascontiguousarray(w[name + ".weight"].T), w[name + ".bias"]

    @staticmethod
    def norm_of(w, name):
        return w[name + ".weight"], w[name + ".bias"]

    @staticmethod
    def norm(x, weights):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * weights[0] + weights[1]

    def gelu(self, x):
        if not self.exact:  # by tanh: off by 0.0005 at most, and much faster
            y = x * x
            y *= np.float32(0.044715 * 0.7978845608)
            y += np.float32(0.7978845608)
            y *= x
            np.tanh(y, out=y)
            y += 1
            y *= x
            y *= np.float32(0.5)
            return y
        z = np.abs(x.astype("f8")) / np.sqrt(2.0)  # erf by a rational approximation, to 2e-7
        t = 1 / (1 + 0.3275911 * z)
        tail = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t
        erf = np.sign(x) * (1 - (tail + 0.254829592) * t * np.exp(-z * z))
        return (0.5 * x * (1 + erf)).astype("f4")

    def hidden(self, ids):
        """What the last layer says of each piece of a block of equally long texts."""
        count, length = ids.shape
        x = self.norm(self.words[ids] + self.places[:length], self.first).reshape(-1, 384)
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
    """Indices of lists of equal length, at most so many tokens together."""
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
    """Unit vectors of lists of pieces; and by piece the sum of what was said of it, and how often."""
    model = Model(model, exact)
    out = np.zeros((len(lists), 384), "f4")
    said, seen = np.zeros((len(model.words), 384), "f4"), np.zeros(len(model.words), "f4")
    for block in blocks(lists):
        ids = np.array([[CLS] + lists[i] + [SEP] for i in block])
        hidden = model.hidden(ids)
        mean = hidden.mean(1)
        out[block] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        np.add.at(said, ids.ravel(), hidden.reshape(-1, 384))
        np.add.at(seen, ids.ravel(), 1)
    return out, said, seen


# ---------------------------------------------------------------- teaching


def teach_part(job):
    model, lists = job
    return encode(model, lists)


def teach(model, source, out):
    texts = open(source, encoding="utf-8").read().splitlines()
    cut = Pieces(pieces(model), True)
    lists = [cut.text(text)[:TEACHER_TOKENS] for text in texts]
    jobs = [(model, lists[i::2]) for i in range(2)]
    vectors = np.zeros((len(texts), 384), "f4")
    said = seen = 0
    with ProcessPoolExecutor(2) as pool:
        for i, (part, part_said, part_seen) in enumerate(pool.map(teach_part, jobs)):
            vectors[i::2], said, seen = part, said + part_said, seen + part_seen
    np.savez(out, texts=np.array("\n".join(texts)), vectors=vectors, said=said, seen=seen)


# ---------------------------------------------------------------- the table


def axes(vectors, dimension=DIMENSION):
    """The directions in which vectors differ most, as columns of a matrix; signs are settled."""
    _, directions = np.linalg.eigh((vectors.T @ vectors).astype("f8"))
    directions = directions[:, ::-1][:, :dimension]
    strongest = directions[np.abs(directions).argmax(0), np.arange(dimension)]
    return (directions * np.sign(strongest)).astype("f4")


def smooth(count):
    """What a piece weighs in a sentence: the more often it is used, the less it tells."""
    share = count / count.sum()
    return (1e-3 / (1e-3 + share)).astype("f4")[:, None]


def usable(names):
    """Pieces that can come out of a text: no marks, no special names."""
    return np.array([n.removeprefix("##").isalnum() and n.isascii() for n in names])


def plain(model, out):
    names = pieces(model)
    vectors, _, _ = encode(model, [[i] for i in range(len(names))])
    vectors -= vectors.mean(0)
    rank = np.arange(1, len(names) + 1, dtype="f4")  # the list is sorted by use: Zipf's law
    pack(names, vectors @ axes(vectors) * smooth(1 / rank), out)


class Texts:
    """What to learn from: the pieces of each text, and where its vector should point."""

    def __init__(self, model, names, file):
        cut = Pieces(names, False)
        texts = [cut.text(text) for text in str(file["texts"]).split("\n")]
        keep = [i for i, text in enumerate(texts) if len(text) >= 2]
        self.pieces = [np.array(texts[i]) for i in keep]
        vectors = file["vectors"][keep]
        vectors = vectors - vectors.mean(0)
        turn = axes(vectors)
        self.goals = vectors @ turn
        self.goals /= np.linalg.norm(self.goals, axis=1, keepdims=True)

        # To start with, a piece is what the model said of it on the average, in all texts and once
        # alone, less the more often it is used.
        alone, _, _ = encode(model, [[i] for i in range(len(names))])
        said, seen = file["said"], file["seen"][:, None]
        size = np.linalg.norm(said / np.maximum(seen, 1), axis=1)[seen[:, 0] > 20].mean()
        start = (said + 5 * size * alone) / (seen + 5) / size
        count = np.bincount(np.concatenate(self.pieces), minlength=len(names)) + 1
        self.start = (start - start.mean(0)) @ turn * smooth(count)


def towards(vectors, goals, sharpness=20):
    """How to move unit vectors: to their goals, and so that they are near to one another where the
    goals are."""

    def likeness(x):
        near = x @ x.T * sharpness
        np.fill_diagonal(near, -1e9)
        near = np.exp(near - near.max(1, keepdims=True))
        return near / near.sum(1, keepdims=True)

    wrong = likeness(vectors) - likeness(goals)
    return (wrong + wrong.T) @ vectors - goals


def fit(texts, epochs=4, batch=1024, rate=2e-3):
    """Rows of pieces, by Adam."""
    rows = texts.start.astype("f4")
    first, second = np.zeros_like(rows), np.zeros_like(rows)
    chance = np.random.default_rng(1)
    rounds = len(texts.pieces) // batch
    for step in range(epochs * rounds):
        if step % rounds == 0:
            order = chance.permutation(len(texts.pieces))
        chosen = order[step % rounds * batch :][:batch]
        lists = [texts.pieces[i] for i in chosen]
        sizes = np.array([len(x) for x in lists])
        ids = np.concatenate(lists)
        sums = np.add.reduceat(rows[ids], np.cumsum(sizes) - sizes, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-9
        sums /= lengths
        move = towards(sums, texts.goals[chosen])
        move = (move - (move * sums).sum(1, keepdims=True) * sums) / lengths

        sort = np.argsort(ids, kind="stable")
        used, starts = np.unique(ids[sort], return_index=True)
        move = np.add.reduceat(move[np.repeat(np.arange(batch), sizes)[sort]], starts, axis=0)
        first[used] = 0.9 * first[used] + 0.1 * move
        second[used] = 0.99 * second[used] + 0.01 * move * move
        now = rate * min(1, step / 20) * (1 - step / (epochs * rounds))
        rows[used] -= now * first[used] / (np.sqrt(second[used]) + 1e-8)
    return rows


def train(model, source, out):
    names = pieces(model)
    pack(names, fit(Texts(model, names, np.load(source))), out)


def fnv1a(name):
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def pack(names, rows, out):
    """The file that src/table.rs describes and reads in place."""
    keep = [i for i, good in enumerate(usable(names)) if good]
    rows, names = rows[keep], [names[i] for i in keep]
    scale = np.maximum(np.abs(rows).max(1) / 127, 1e-12).astype("<f4")
    numbers = np.clip(np.rint(rows / scale[:, None]), -127, 127).astype("i1")
    slots = np.full(1 << 16, 0xFFFF, "<u2")
    for i, name in enumerate(names):
        at = fnv1a(name) & 0xFFFF
        while slots[at] != 0xFFFF:
            at = (at + 1) & 0xFFFF
        slots[at] = i
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
    cut = Pieces(pieces(model), True)
    vectors, _, _ = encode(model, [cut.text(text) for text in REFERENCE], exact=True)
    with open(out, "w", encoding="utf-8") as file:
        for text, vector in zip(REFERENCE, vectors):
            file.write(text + "\n" + " ".join(f"{x:.5f}" for x in vector) + "\n")


if __name__ == "__main__":
    acts = {act.__name__: act for act in (teach, train, plain, reference)}
    acts[sys.argv[1]](*sys.argv[2:])
