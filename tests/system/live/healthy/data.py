"""Data sets and models for programs that would fetch them: of the right form, small, and of nothing but noise.

Run by the Python that has the frameworks: `python data.py KIND FOLDER [COUNT]`.
"""

import json
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

WORDS = (
    "the a of to and in is it you that he was for on are with as his they at be this from have or by one had".split()
)


def mnist(folder: Path, _: int) -> None:
    """Write MNIST and FashionMNIST as their files are unpacked, all black."""
    for name in ("MNIST", "FashionMNIST"):
        raw = folder / name / "raw"
        raw.mkdir(parents=True)
        for part, count in (("train", 60_000), ("t10k", 10_000)):
            _sparse(raw / f"{part}-images-idx3-ubyte", struct.pack(">IIII", 2051, count, 28, 28), count * 28 * 28)
            _sparse(raw / f"{part}-labels-idx1-ubyte", struct.pack(">II", 2049, count), count)


def _sparse(path: Path, head: bytes, more: int) -> None:
    path.write_bytes(head)
    with open(path, "ab") as file:
        file.truncate(len(head) + more)


def images(folder: Path, count: int) -> None:
    """Write JPEG files in a folder for each of two classes, to train and to validate on."""
    from PIL import Image

    for part in ("train", "val"):
        for kind in ("cat", "dog"):
            (folder / part / kind).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (64, 64), (number % 256, 0, 0)).save(folder / part / kind / f"{number}.jpg")


def tokens(folder: Path, count: int) -> None:
    """Write tokens of two bytes, as nanoGPT reads them."""
    folder.mkdir(parents=True)
    for part in ("train", "val"):
        (folder / f"{part}.bin").write_bytes(struct.pack("<100H", *range(100)) * (count // 100))


def texts(folder: Path, count: int) -> None:
    """Write texts of three forms: to continue, and with what is preferred to what."""
    text = " ".join(WORDS * 3)
    rows: Mapping[str, dict[str, str]] = {
        "text": {"text": text},
        "preferences": {"prompt": text, "chosen": f" {text}", "rejected": " it was"},
        "replies": {"chosen": text, "rejected": "it was"},
    }
    for name, row in rows.items():
        (folder / name).mkdir(parents=True)
        with open(folder / name / "train.jsonl", "w") as file:
            file.write((json.dumps(row) + "\n") * count)


def model(folder: Path, _: int) -> None:
    """Save a language model of two small layers, and a tokenizer of single words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", "<pad>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(
        vocab_size=len(vocabulary), num_key_value_heads=2, bos_token_id=1, eos_token_id=2, pad_token_id=3, **size
    )
    LlamaForCausalLM(config).save_pretrained(folder)


KINDS: Mapping[str, Callable[[Path, int], None]] = {
    "mnist": mnist,
    "images": images,
    "tokens": tokens,
    "texts": texts,
    "model": model,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
