"""What a part of a template reads from outside of itself."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.template import Context, Node, NodeList
from django.template.base import FilterExpression, TextNode, Variable, VariableNode
from django.template.defaulttags import CommentNode, ForNode, IfNode, LoadNode, TemplateLiteral, URLNode, WithNode
from django.template.library import InclusionNode, SimpleNode
from django.template.loader import get_template
from django.template.loader_tags import IncludeNode
from django.templatetags.static import StaticNode

from harness_site.templatetags.harness import Hiding, Keep, narrowed

#: What every template has.
_ALWAYS: Final = frozenset({"True", "False", "None"})
Bound = frozenset[str]


def read(nodes: Iterable[Node], bound: Bound = _ALWAYS) -> Iterator[str]:
    """`row.title` for each variable, without what these nodes give a name themselves; that is found by what it is made
    of. `here` stands for the address of the page. Raises `TypeError` for a node that is not known here."""
    for node in nodes:
        yield from _outside(_of(node, bound), bound)
        bound |= _named(node)


def _outside(found: Iterable[str], bound: Bound) -> Iterator[str]:
    return (path for path in found if path.partition(".")[0] not in bound)


def _named(node: Any) -> set[str]:
    """What the nodes behind this one may call by a name."""
    name = getattr(node, "target_var", None) or getattr(node, "asvar", None)
    return {name} if name else set()


def _of(node: Any, bound: Bound) -> Iterator[str]:
    match node:
        case TextNode() | CommentNode() | LoadNode() | StaticNode():
            return
        case IfNode() | ForNode() | WithNode() | IncludeNode() | Keep() | Hiding():
            yield from _of_a_block(node, bound)
        case SimpleNode() | InclusionNode():
            yield from _paths([*node.args, *node.kwargs.values()])
            if node.takes_context:
                yield "here" if node.func is narrowed else f"whatever {node.func.__name__} looks at"
        case VariableNode():
            yield from _paths([node.filter_expression])
        case URLNode():
            yield from _paths([node.view_name, *node.args, *node.kwargs.values()])
        case _:
            raise TypeError(f"What a {type(node).__name__} reads is not known.")


def _of_a_block(node: Any, bound: Bound) -> Iterator[str]:
    match node:
        case IfNode():
            for condition, inside in node.conditions_nodelists:
                yield from _compared(condition)
                yield from read(inside, bound)
        case ForNode():
            parts: Any = (node.nodelist_loop, node.nodelist_empty)
            yield from _paths([node.sequence])
            for inside, names in zip(parts, ({*node.loopvars, "forloop"}, set[str]()), strict=True):
                yield from read(inside, bound | names)
        case Hiding():
            yield from _paths([node.call])
            yield from read(node.inside, bound)
        case Keep():
            yield from _paths(node.values)
            yield from read(node.inside, bound)
        case _:
            shown = _included(node) if isinstance(node, IncludeNode) else node.nodelist
            yield from _paths(node.extra_context.values())
            yield from read(shown, bound | set(node.extra_context))


def _included(node: IncludeNode) -> NodeList:
    name = node.template.resolve(Context())
    found: Any = get_template(name)
    nodes: NodeList = found.template.nodelist
    return nodes


def _compared(condition: Any) -> Iterator[str]:
    """None stands for what is always so, after `else`."""
    if isinstance(condition, TemplateLiteral):
        yield from _paths([condition.value])
    elif condition is not None:
        yield from [*_compared(condition.first), *_compared(condition.second)]


def _paths(expressions: Iterable[Any]) -> Iterator[str]:
    for expression in expressions:
        if isinstance(expression, FilterExpression):
            given = [argument for _, arguments in expression.filters for is_name, argument in arguments if is_name]
            for variable in (expression.var, *given):
                if isinstance(variable, Variable) and variable.lookups is not None:
                    yield ".".join(variable.lookups)
