"""The role of a group: what its siblings on other ranks share, such as `tp` of `tp0` and `tp1`."""

import re

from collector.diagnose.groups import GroupView

_NUMBERED = re.compile(r"^(?P<family>.*?)[\d_:.-]*\d$")
_UNDESCRIBED = ("", "undefined")


def role_of(group: GroupView, groups: tuple[GroupView, ...]) -> str:
    """Return the description without its trailing number.

    Undescribed groups play one role when they are of one size and come in the same place among their members'
    undescribed groups of that size: siblings are created in the same order everywhere.
    """
    if group.description not in _UNDESCRIBED:
        match = _NUMBERED.match(group.description)
        return match["family"] if match and match["family"] else group.description
    alike = [
        other.name
        for other in groups
        if other.description in _UNDESCRIBED
        and len(other.members) == len(group.members)
        and group.members[0] in other.members
    ]
    return f"{len(group.members)} ranks, {alike.index(group.name)}"
