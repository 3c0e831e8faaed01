"""Five hundred forms of secrets, half of them as programs' manuals have them, and lines that hold none."""

import random
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.build.processes.secrets_made import FORMS, NAMES

DATA = Path(__file__).resolve().parents[2] / "data" / "redaction"
MANY = 500


def forms_with_secrets(seed: int) -> Iterator[tuple[str, str]]:
    """Iterate over texts, each with the secret in it: commands as they are and in a log, then what names itself."""
    made = random.Random(seed)
    tools = DATA.joinpath("tools.txt").read_text(encoding="utf-8").splitlines()
    services = DATA.joinpath("services.txt").read_text(encoding="utf-8").splitlines()
    commands = [*tools, *(f"+ {form}" for form in made.sample(tools, MANY // 2 - len(tools)))]
    others = [*services, *_named(made, MANY - len(commands) - len(services))]
    for form in (*commands, *others):
        secret = made_secret(made)
        yield form.replace("{S}", secret).replace("\\n", "\\\n"), secret


def _named(made: random.Random, many: int) -> Iterator[str]:
    every = [(name, form) for name in (*NAMES, "SECRET_KEY_BASE", "TRUSTSTORE_PASS") for form in FORMS]
    chosen = [(name, form) for name, form in every if not (form == "header tuple" and name == "GITLAB_PAT")]
    for name, form in made.sample(chosen, many):
        yield FORMS[form](name, "{S}") if "%7B" not in FORMS[form](name, "{S}") else f"{name}={{S}}"


def made_secret(made: random.Random) -> str:
    """A password or a token: letters, at least one digit, nothing that a shell would split."""
    letters = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    return "q7" + "".join(made.choices(letters, k=made.randint(12, 30)))


def lines_without_secrets(seed: int) -> Iterator[str]:
    """Iterate over what a log of a training job is full of, and what must be read by whoever looks for a hang."""
    made = random.Random(seed)

    def digits(count: int) -> str:
        return "".join(made.choices("0123456789abcdef", k=count))

    for number in range(12):
        rank, step = made.randrange(4096), made.randrange(10**6)
        identifier = uuid.UUID(int=made.getrandbits(128))
        yield f"[rank{rank}]: step {step} loss 0.{digits(4)} at commit {digits(40)}"
        yield f"HEAD is now at {digits(7)} Merge branch 'main'"
        yield f"sha256:{digits(64)}  model-{number:05d}-of-00012.safetensors"
        yield f"/data/run-{identifier}/checkpoints/step_{step}/rank{rank}.pt"
        yield f"job {identifier} attempt {number} of pod llama-7b-worker-{rank}"
        yield f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={step}, OpType=ALLREDUCE, NumelIn={step})"
        yield f"NCCL INFO ncclCommInitRank comm 0x{digits(12)} rank {rank} nranks 4096 commId 0x{digits(16)} - done"
        yield f"mlx5_{number}: port 1 GID fe80:0000:0000:0000:{digits(4)}:{digits(4)}:{digits(4)}:{digits(4)}"
        yield f"mysql server on db-{number} answered rank {rank} in {step} us; seq {step}"
        yield f"redis-server 7.2.{number} pid={rank} ready, openssl 3.0.{number}, keytool not found"
        yield f"invalid key 'model.layers.{number}.self_attn.q_proj.weight' in state_dict"
        yield f"unknown key 'layer{number}_k_proj' in config; No API key provided: set WANDB_API_KEY"
        yield f"srun -p gpu_h100_8x{number} -u python hydra_main.py -m -p sweep_{number}b <<< rank{rank}"
        yield f"diff <(echo run{number}) <(echo run{rank}); archive -p{number} library -p{rank}"
        yield f"unexpected token '<' at line {number}; expected an identifier"
        yield f"compass={number} bypass=True pass=2 passes={step} PASS: test_{number}"
        yield f"curl -sS -o /tmp/{digits(8)} http://node{rank}:8471/v1/ranks -w '%{{http_code}}'"
        yield f"torchrun --nnodes 16 --node-rank {number} --rdzv-endpoint node0:29500 --rdzv-id {identifier} train.py"
        yield f"ssh -p 22{number:02d} node{rank} mount -o rw,hard,vers=4.2 nas:/export/{digits(8)} /mnt"
        yield f"PCI {digits(4)}:{digits(2)}:00.0 GPU-{identifier} xid 79 pid={rank} name=python"
        yield f"thread {digits(12)} holds futex 0x7f{digits(10)} since {step} ms"
