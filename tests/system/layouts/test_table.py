"""What `make layouts` does with a version that it has read."""

from deploy.layouts.probe import Structure
from deploy.layouts.table import Build, Found, Table, add, layout_of

CPU: dict[str, Structure] = {"entry": {"size": 16, "fields": {"id_": [0, 8]}}}
NCCL: dict[str, Structure] = {"nccl": {"size": 8, "fields": {"rank_": [0, 4]}}}
CHANGED: dict[str, Structure] = {"entry": {"size": 24, "fields": {"id_": [0, 8]}}}


def found(
    version: str, structures: dict[str, Structure], *, new_strings: bool = True, cuda: str | None = None
) -> Found:
    build: Build = {
        "torch": version,
        "cuda": cuda,
        "python": "3.11",
        "build_ids": {},
        "layout": "",
    }
    return Found(version, new_strings, structures, [("recorder", "_Z")], build)


def table(*builds: Found) -> Table:
    made: Table = {"format": 1, "symbols": {}, "layouts": [], "builds": []}
    for build in builds:
        add(made, build)
    return made


def names(made: Table) -> dict[str, list[str]]:
    return {layout["name"]: layout["torch"] for layout in made["layouts"]}


def test_versions_that_agree_share_a_layout() -> None:
    """It is named after the first of them, in whatever order they were read."""
    made = table(found("2.10.0", CPU), found("2.9.0", CPU), found("2.11.0", CHANGED))
    assert names(made) == {"2.9.0": ["2.9.0", "2.10.0"], "2.11.0": ["2.11.0"]}
    assert [build["layout"] for build in made["builds"]] == ["2.9.0", "2.9.0", "2.11.0"]
    assert made["symbols"] == {"recorder": ["_Z"]}


def test_strings_are_layouts_of_their_own() -> None:
    """Even where nothing else differs."""
    made = table(found("2.6.0", CPU), found("2.6.0", CPU, new_strings=False))
    assert names(made) == {"2.6.0": ["2.6.0"], "2.6.0-old": ["2.6.0"]}
    old = layout_of(made, "2.6.0", new_strings=False)
    assert old is not None
    assert old["name"] == "2.6.0-old"


def test_a_wheel_without_cuda_says_less() -> None:
    """Whichever is read first, what the one for CUDA says of NCCL stays."""
    for order in ((None, "13.0"), ("13.0", None)):
        made = table(*(found("2.13.0", CPU | NCCL if cuda else CPU, cuda=cuda) for cuda in order))
        assert [layout["structures"] for layout in made["layouts"]] == [CPU | NCCL]
        assert len(made["builds"]) == 2


def test_a_version_that_is_read_again() -> None:
    """It moves where it now belongs; the layout that nobody has any more goes."""
    made = table(found("2.9.0", CPU), found("2.9.0", CHANGED))
    assert names(made) == {"2.9.0": ["2.9.0"]}
    assert made["layouts"][0]["structures"] == CHANGED
    assert [build["layout"] for build in made["builds"]] == ["2.9.0"]
