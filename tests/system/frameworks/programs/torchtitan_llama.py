"""TorchTitan's own trainer and its smallest llama, sharded by FSDP2; the words and the tokenizer are made here."""

import json
import os
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer, models

TEXTS, WORDS = 500, "a job that trains and trains until it hangs".split()
ARGUMENTS = (
    "--model.name llama3 --model.flavor debugmodel --model.hf_assets_path tokenizer --training.dataset c4_test "
    "--training.seq_len 64 --training.local_batch_size 1 --training.steps 100"
)


def main() -> None:
    """Train as `python -m torchtitan.train` does."""
    os.chdir(tempfile.mkdtemp())
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(Path.cwd())}
    texts, tokenizer = Path("tests/assets/c4_test"), Path("tokenizer")
    texts.mkdir(parents=True)
    tokenizer.mkdir()
    (texts / "texts.json").write_text(TEXTS * (json.dumps({"text": 20 * " ".join(WORDS)}) + "\n"))
    words = {word: number for number, word in enumerate(("<s>", "</s>", *dict.fromkeys(WORDS)))}
    Tokenizer(models.WordLevel(words, "<s>")).save(str(tokenizer / "tokenizer.json"))
    (tokenizer / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    sys.argv[1:] = ARGUMENTS.split()
    from torchtitan.train import Trainer, main

    main(Trainer)


if __name__ == "__main__":
    main()
