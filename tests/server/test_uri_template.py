"""URI templates: what an expansion says, matching gives back."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_trio.server.uri_template import MAX_URI, UriTemplate

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NONEMPTY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
LIST = st.lists(TEXT, min_size=2, max_size=4)
OBJECT = st.dictionaries(NONEMPTY, TEXT, min_size=1, max_size=3)
# In reserved expansion a triplet such as %20 stands for itself, so that "%" cannot come back.
RAW = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="%"), max_size=8)

REVERSIBLE = [
    ("weather://{city}/now", {"city": TEXT}),
    ("x:{a}/{b}", {"a": TEXT, "b": TEXT}),
    ("x:{a}:{b}@{c}", {"a": TEXT, "b": TEXT, "c": TEXT}),
    ("x:{a,b}/{c}", {"a": TEXT, "b": TEXT, "c": TEXT}),
    ("file://{+path}", {"path": RAW}),
    ("file://{+path}/{name}", {"path": RAW, "name": TEXT}),
    ("x:{a}{#part}", {"a": TEXT, "part": RAW}),
    ("x:{+a}{?q}", {"a": RAW, "q": TEXT}),
    ("x:/a{.type}", {"type": TEXT}),
    ("x:{/a}{/b}", {"a": TEXT, "b": TEXT}),
    ("x:{/a,b}", {"a": TEXT, "b": TEXT}),
    ("x:{a}{;b,c}", {"a": TEXT, "b": TEXT, "c": TEXT}),
    ("x:y{?b,c}", {"b": TEXT, "c": TEXT}),
    ("x:y?fixed=1{&b,c}", {"b": TEXT, "c": TEXT}),
    ("x:{list*}/z", {"list": LIST}),
    ("x:{/list*}", {"list": LIST}),
    ("x:{/a,list*}", {"a": TEXT, "list": LIST}),
    ("x:{;list*}", {"list": LIST}),
    ("x:{?b,list*}", {"b": TEXT, "list": LIST}),
    ("x:{map*}", {"map": OBJECT}),
    ("x:{/map*}", {"map": OBJECT}),
    ("x:{;map*}", {"map": OBJECT}),
    ("x:{?map*}", {"map": OBJECT}),
    ("x:{/a:1,a}", {"a": NONEMPTY}),
    ("x:{a}/{a}", {"a": TEXT}),
]


@pytest.mark.parametrize(("template", "strategies"), REVERSIBLE)
def test_matching_an_expansion_gives_its_variables_back(
    template: str, strategies: dict[str, st.SearchStrategy[Any]]
) -> None:
    """The property that resource templates stand on."""
    compiled = UriTemplate(template)

    @settings(max_examples=40)
    @given(st.fixed_dictionaries(strategies))
    def check(values: dict[str, Any]) -> None:
        assert compiled.match(compiled.expand(values)) == values

    check()


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("weather://{city}/now", "weather://oslo/now", {"city": "oslo"}),
        ("weather://{city}/now", "weather://nowhere/else/at/all", None),
        ("weather://{city}/now", "weather://oslo/now/", None),
        ("weather://{city}/now", "weather://os%2Flo/now", {"city": "os/lo"}),
        ("weather://{city}/now", "weather://S%C3%B8rland/now", {"city": "Sørland"}),
        ("weather://{city}/now", "weather://Sørland/now", {"city": "Sørland"}),
        ("weather://{city}/now", "weather://St. John's/now", {"city": "St. John's"}),
        ("weather://{city}/now", "weather://a@b:c,d/now", {"city": "a@b:c,d"}),
        ("weather://{city}/now", "weather://%FF/now", None),
        ("weather://{city}/now", "weather://\ud800/now", None),
        ("weather://{city}/now", "weather://100%/now", {"city": "100%"}),
        ("weather://{city}/n%6fw", "weather://oslo/%6eow", {"city": "oslo"}),
        ("weather://{city}/now", "WEATHER://oslo/now", None),
        ("x:ø/{a}", "x:%c3%b8/1", {"a": "1"}),
        ("x:{name}.{ext}", "x:a.tar.gz", {"name": "a.tar", "ext": "gz"}),
        ("x:{name}{.ext}", "x:a.tar.gz", {"name": "a.tar", "ext": "gz"}),
        ("x:{name}{.ext}", "x:a", {"name": "a"}),
        ("x:{+path}{?q}", "x:a?b", {"path": "a?b"}),
        ("x:{+path}{?q}", "x:a?q=b", {"path": "a", "q": "b"}),
        ("x:y{?a,b}", "x:y?b=2&a=1", {"a": "1", "b": "2"}),
        ("x:y{?a,b}", "x:y", {}),
        ("x:y{?a,b}", "x:y?a=1&a=2", None),
        ("x:y{?a,b}", "x:y?z=1", None),
        ("x:{a}/{a}", "x:1/2", None),
        ("x:{/a:1,a}", "x:/a/bc", None),
        ("x:{a}C3", "x:%C3", None),
        ("x:{a,b}", "x:1", {"a": "1"}),
        ("x:{a,b}", "x:1,2,3", None),
        ("x:plain", "x:plain", {}),
        ("x:plain", "x:other", None),
    ],
)
def test_matching(template: str, uri: str, values: dict[str, Any] | None) -> None:
    """Escapes, other characters, hand-written URIs, ambiguity and what does not match."""
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("x:{a}{b}", "nothing stands between {a} and {b}"),
        ("x:{/a}{+b}", "nothing stands between {/a} and {\\+b}"),
        ("x:{+a,b}", "may contain ','"),
        ("x:{#a*}", "may contain ','"),
        ("x:{.a,b}", "may contain '.'"),
        ("x:{a:3}", "of 'a' it only has the first 3 characters"),
        ("x:{/a*,b}", "only the last variable"),
        ("x:{a", "a brace without its partner"),
        ("x:a}", "a brace without its partner"),
        ("x:{}", "'' is no variable"),
        ("x:{a b}", "'a b' is no variable"),
        ("x:{=a}", "'=a' is no variable"),
        ("x:{a:0}", "'a:0' is no variable"),
    ],
)
def test_what_cannot_be_matched_is_refused(template: str, complaint: str) -> None:
    """At registration and with the reason, rather than with wrong variables later."""
    with pytest.raises(ValueError, match=complaint):
        UriTemplate(template)


def test_variables() -> None:
    """The names in order, each once."""
    assert UriTemplate("x:{b}/{a}/{b}{?c,d*}").variables == ("b", "a", "c", "d")


def test_matching_is_linear() -> None:
    """No template makes a hostile URI expensive, and a huge URI is none."""
    template = UriTemplate("x:{+a}-{+b}-{+c}-{+d}-{+e}-{+f}!")
    before = time.perf_counter()
    assert template.match("x:" + "-" * 20_000) is None
    assert time.perf_counter() - before < 1
    assert UriTemplate("x:{+a}").match("x:" + "a" * MAX_URI) is None
