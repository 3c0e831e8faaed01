"""What is remembered is found once, and is never more than so much."""

from agent.proc.remembered import Remembered


def test_what_is_found_is_found_once_until_there_is_too_much() -> None:
    """Also where it is None; past the bound all is forgotten, which costs looking again."""
    known, looked = Remembered[int | None](2), list[str]()

    def find(key: str) -> int | None:
        looked.append(key)
        return None if key == "none" else len(looked)

    for key in ("a", "none", "a", "none", "b", "a"):
        known.once(key, lambda key=key: find(key))  # type: ignore[misc]
    assert looked == ["a", "none", "b", "a"]
    assert (known.get("b"), known.get("none"), "none" in known) == (3, None, False)
    assert known.put("b", 7) == known.once("b", lambda: 8) == 7
