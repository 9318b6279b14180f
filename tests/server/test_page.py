"""The page in a real browser: search, click, colours, a new node, and the page that stands alone."""

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import httpx2
import numpy as np
import pyarrow as pa
import pytest

import glace
from glace.categories import Categories
from glace.errors import InputError
from glace.ids import NodeIds
from glace.queries.layout import principal
from glace.server import page
from glace.server.answers import Answers
from glace.server.app import make_app
from glace.server.map import clusters_of, map_of
from tests.server.conftest import running

selenium = pytest.importorskip("selenium.webdriver", reason="driving a browser needs selenium: pip install '.[dev]'")

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs a browser: Debian's packages chromium and chromium-driver"
)
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--window-size=1400,900",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = selenium.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def clusters(model):
    return model.clusters(3).categories()


@pytest.fixture(scope="module")
def server(answers, positions, clusters):
    with running(make_app(answers, positions, clusters=clusters)) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(params=["served", "exported"])
def opened(request, browser, server, answers, positions, clusters, tmp_path):
    """The page, drawn: from the server, and from a file."""
    if request.param == "served":
        return Page(browser, server)
    page.export(answers, positions, tmp_path / "page.html", clusters)
    return Page(browser, (tmp_path / "page.html").as_uri())


class Page:
    """What a person does with the page."""

    def __init__(self, browser, address):
        self.browser = browser
        browser.get_log("browser")
        browser.get(address)
        self.until(lambda: browser.execute_script("return window.glaceDrawnAfter"))

    def until(self, is_so, seconds=30):
        end = time.monotonic() + seconds
        while not (found := is_so()):
            assert time.monotonic() < end, self.browser.get_log("browser")
            time.sleep(0.05)
        return found

    def at(self, selector):
        return self.browser.find_element("css selector", selector)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def texts(self, selector):
        """All at once: the page may redraw a list while its items are asked one by one."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
        return self.browser.execute_script(script, selector)

    def find(self, text):
        """Type into the search box and take what comes first, by keyboard."""
        box = self.at("#search")
        box.clear()
        box.send_keys(text, selenium.Keys.ENTER)  # without waiting for what is found

    def name(self):
        return self.at("#name").text

    def map(self, what):
        """A property of the map, such as `groups.length`."""
        return self.browser.execute_script(f"return window.glaceMap.{what}")

    def legend(self):
        return [each.text.split("\n") for each in self.all("#entries li")]

    def errors(self):
        return [each for each in self.browser.get_log("browser") if each["level"] == "SEVERE"]

    def colour_by(self, value):
        self.at(f"#colour option[value={value}]").click()


def test_search_and_what_is_said_of_a_node(opened, answers, clusters):
    opened.find("node 07")
    opened.until(lambda: opened.name() == "node 07")
    said = opened.at("#about").text
    node = answers.node("node 07")
    group = opened.map(f"categories.cluster.codes[{answers.position('node 07')}]")
    named = clusters.names[int(group)]
    assert f"label\n{node['label']}\nedges\n{node['edges']}\ncluster\n{named}" in said
    assert f"more certain than {100 * node['certainty']:.0f} % of the nodes" in said
    nearest = answers.neighbors("node 07", 8)
    assert opened.texts("#neighbors .id") == [each["id"] for each in nearest]
    linked = opened.browser.execute_script(
        "return [...document.querySelectorAll('#neighbors button')].map((one) => !!one.querySelector('.linked'))"
    )
    assert linked == [each["known"] for each in nearest]
    likely = [each.text for each in opened.all("#likely .id")]
    links = answers.links("node 07", 5, why=True)
    assert likely == [each["target"] for each in links]
    assert opened.texts("#likely .why") == [each["why"] for each in links]
    figures = [float(each.removesuffix(" %")) for each in opened.texts("#likely .figure")]
    assert figures == pytest.approx([100 * each["probability"] for each in links], abs=0.6)
    fraction = answers.model.missing_edge_fraction
    assert (
        opened.at("#assumed").text == f"The probability of an edge, if {100 * fraction:.1f} % of all edges are missing."
    )
    first = answers.neighbors("node 07", 1)[0]
    assert opened.texts("#neighbors .figure")[0] == f"{first['dissimilarity']:.2f}"
    bar = opened.at("#neighbors .bar").get_attribute("title")
    assert bar.startswith(f"dissimilarity {first['dissimilarity']:.2f}: ")
    widths = opened.browser.execute_script(
        "return [...document.querySelectorAll('#neighbors .bar')].map((bar) =>"
        " [...bar.children].reduce((sum, part) => sum + parseFloat(part.style.width), 0))"
    )
    assert widths == pytest.approx([100 * first["dissimilarity"] / each["dissimilarity"] for each in nearest], abs=0.5)
    assert widths == sorted(widths, reverse=True), "a longer bar is more alike"
    assert opened.until(lambda: len(opened.all("#ellipses ellipse")) == 9)
    assert opened.map("view.shown.joined.length") == node["edges"]
    assert opened.map("view.shown.near.length") == 8
    assert opened.errors() == []


def test_a_click_on_the_map(opened):
    x, y, box, name = opened.browser.execute_script(
        """
        const view = window.glaceMap.view, box = view.above.getBoundingClientRect();
        return [...view.at(0), [box.left, box.top], window.glaceMap.data.ids[view.near(view.at(0))]];
        """
    )
    actions = selenium.ActionChains(opened.browser)
    actions.w3c_actions.pointer_action.move_to_location(round(box[0] + x), round(box[1] + y))
    actions.perform()
    assert opened.until(lambda: opened.at("#tip").text)
    actions.w3c_actions.pointer_action.click()
    actions.perform()
    opened.until(opened.name)
    # Points may lie upon each other, and the pointer is moved by whole pixels: one of the same place is meant.
    assert opened.all("#neighbors li")
    assert name in opened.map("data.ids")
    assert opened.errors() == []


def test_neighbours_are_buttons(opened):
    opened.find("node 07")
    opened.until(lambda: opened.name() == "node 07")
    wanted = opened.at("#neighbors .id").text
    button = opened.at("#neighbors button")
    button.send_keys(selenium.Keys.ENTER)
    opened.until(lambda: opened.name() == wanted)
    assert opened.browser.switch_to.active_element.get_attribute("id") == "name"


def test_search_by_keyboard_alone(opened):
    opened.at("body").send_keys("/")
    box = opened.browser.switch_to.active_element
    assert box.get_attribute("id") == "search"
    box.send_keys("node 1")
    opened.until(lambda: len(opened.all("#found li")) > 2)
    box.send_keys(selenium.Keys.ARROW_DOWN, selenium.Keys.ARROW_DOWN, selenium.Keys.ARROW_UP)
    chosen = opened.at("#found li[aria-selected=true]").text
    assert opened.all("#found li")[1].text == chosen
    box.send_keys(selenium.Keys.ENTER)
    opened.until(lambda: opened.name() == chosen)
    box.send_keys("x")
    opened.until(lambda: opened.at("#found").text == "no node is called so")
    box.send_keys(selenium.Keys.ENTER, selenium.Keys.ESCAPE)
    assert not opened.at("#found").is_displayed()


def test_colours(opened, answers):
    assert opened.at("#legend-title").text == "label"
    assert opened.legend() == [["animal", "30"], ["fruit", "30"], ["music", "30"]]
    assert sorted(opened.map("view.regions.map((region) => region.name)")) == ["animal", "fruit", "music"]
    opened.find("node 07")
    opened.until(lambda: opened.name() == "node 07")
    opened.colour_by("certainty")
    opened.until(lambda: opened.at("#legend-title").text == "certainty")
    assert sum(opened.map("groups.map((group) => group.places.length)")) == 90
    ends = opened.map("groups.map((group) => [group.low, group.high])")
    assert ends == sorted(ends)
    place = answers.position("node 07")
    assert opened.map("view.shown.place") == place, "the node stays marked"
    opened.colour_by("degree")
    opened.until(lambda: opened.at("#legend-title").text == "number of edges")
    step = opened.map(f"groups.find((group) => group.places.includes({place}))")
    assert step["low"] <= answers.node("node 07")["edges"] <= step["high"]
    opened.colour_by("cluster")
    opened.until(lambda: opened.at("#legend-title").text == "cluster")
    assert len(opened.legend()) == 3
    opened.colour_by("plain")
    opened.until(lambda: not opened.at("#legend").is_displayed())
    assert opened.errors() == []


def test_columns_of_numbers_colour_the_map(browser, answers, positions, tmp_path):
    ages = np.arange(90, dtype=np.float32)
    ages[:9] = np.nan
    numbers = {"age": ages, "height": np.full(90, 1.2345, np.float32)}
    page.export(answers, positions, tmp_path / "page.html", numbers=numbers)
    opened = Page(browser, (tmp_path / "page.html").as_uri())
    opened.at('#colour option[value="column age"]').click()
    opened.until(lambda: opened.at("#legend-title").text == "age")
    *steps, missing = opened.legend()
    assert missing == ["no age", "9"]
    assert steps[0][0].startswith("9 to ")
    assert steps[-1][0].endswith(" to 89")
    assert sum(int(count) for _, count in steps) == 81
    opened.find(str(answers.embedding.ids[40]))
    opened.until(lambda: "age\n40" in opened.at("#node").text)
    assert "height\n1.23" in opened.at("#node").text
    assert opened.errors() == []


def test_many_labels_share_one_grey(browser, model, positions, tmp_path):
    """The twelve most frequent have colours, the others one; the largest comes first, with its count."""
    sizes = [20, 15, 10, 8, 7, 5, 4, 4, 3, 3, 2, 2, *[1] * 7]
    labels = [f"label {rank:02}" for rank, size in enumerate(sizes) for _ in range(size)]
    graph = replace(model.graph, labels=Categories.of(labels[:90]))
    page.export(Answers(replace(model, graph=graph)), positions, tmp_path / "page.html")
    opened = Page(browser, (tmp_path / "page.html").as_uri())
    legend = opened.legend()
    assert legend[0] == ["label 00", "20"]
    assert legend[-1] == ["7 others", "7"]
    assert len(legend) == 13
    colours = opened.map("groups.map((group) => group.colour)")
    assert len(set(colours)) == 13


@pytest.mark.parametrize("served", [True, False])
def test_titles_are_shown_and_searched_and_columns_colour(browser, model, positions, tmp_path, served):
    titles = pa.array([f"Story of {number:02}" for number in range(90)], pa.large_string())
    town = pa.array(["Bern", "Basel", ""] * 30, pa.large_string())
    asked = Answers(replace(model, graph=replace(model.graph, node_columns={"town": town, "title": titles})), "tales")
    page.export(asked, positions, tmp_path / "page.html")
    with running(make_app(asked, positions)) as port:
        address = f"http://127.0.0.1:{port}/" if served else (tmp_path / "page.html").as_uri()
        opened = Page(browser, address)
        assert browser.title == "tales - glace"
        opened.find("story of 07")
        opened.until(lambda: opened.name() == "Story of 07")
        assert opened.at("#id-line").text == "node 07"
        nearest = opened.texts("#neighbors .title")
        assert nearest == [f"Story of {asked.position(each['id']):02}" for each in asked.neighbors("node 07", 8)]
        opened.at("#colour option[value='column town']").click()
        opened.until(lambda: opened.legend() == [["Basel", "30"], ["Bern", "30"], ["no town", "30"]])
        assert opened.errors() == []


def test_every_node_has_an_address_and_back_works(opened):
    opened.find("node 07")
    opened.until(lambda: opened.name() == "node 07")
    opened.find("a/b?c")
    opened.until(lambda: opened.name() == "a/b?c=d&e")
    address = opened.browser.current_url
    assert address.endswith("#node=a%2Fb%3Fc%3Dd%26e")
    opened.browser.back()
    opened.until(lambda: opened.name() == "node 07")
    opened.browser.back()
    opened.until(lambda: not opened.at("#about").is_displayed())
    opened.browser.get("about:blank")
    again = Page(opened.browser, address)
    again.until(lambda: again.name() == "a/b?c=d&e")
    opened.browser.get(address.partition("#")[0] + "#node=nobody")
    again.until(lambda: again.at("#status").text == "The map has no node nobody.")


def test_a_server_that_is_gone_is_said(browser, answers, positions):
    with running(make_app(answers, positions)) as port:
        opened = Page(browser, f"http://127.0.0.1:{port}/")
        assert not opened.at("#dead").is_displayed()
    opened.find("node 07")
    opened.until(lambda: "The server does not answer" in opened.at("#dead").text)


def test_the_map_by_keyboard(opened):
    opened.at("#above").send_keys("+", "+", selenium.Keys.ARROW_LEFT)
    assert opened.map("view.zoom") > 1.5
    center = opened.map("view.center")
    opened.at("#above").send_keys(selenium.Keys.ARROW_RIGHT)
    assert opened.map("view.center")[0] > center[0]
    opened.at("#above").send_keys("0")
    assert opened.map("view.zoom") == 1
    opened.at("#closer").click()
    assert opened.map("view.zoom") == 1.5
    opened.browser.execute_script("const {view} = glaceMap; view.center = [view.x[5], view.y[5]]; view.zoom = 50")
    opened.at("#above").send_keys(selenium.Keys.ENTER)
    opened.until(opened.name)
    assert opened.map("view.picture()").startswith("data:image/png;base64,")


def test_no_script_is_made_at_run_time(browser, server):
    """The policy of the page forbids eval and inline styles, and nothing of the page tries them."""
    reply = httpx2.get(server)
    assert "unsafe" not in reply.headers["content-security-policy"]
    opened = Page(browser, server)
    opened.find("node 07")
    opened.until(lambda: opened.name() == "node 07")
    assert opened.browser.get_log("browser") == []


@pytest.mark.skipif("GLACE_AXE" not in os.environ, reason="needs axe-core: GLACE_AXE=node_modules/axe-core/axe.min.js")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screen_readers_can_use_it(opened, scheme):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    opened.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        opened.find("node 07")
        opened.until(lambda: opened.name() == "node 07")
        opened.browser.execute_script(Path(os.environ["GLACE_AXE"]).read_text(encoding="utf-8"))
        found = opened.browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")["violations"]
        assert [(each["id"], each["impact"], each["nodes"][0]["html"]) for each in found] == []
    finally:
        opened.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_types(browser, typed, tmp_path):
    places = principal(typed.embedding).astype("float32")
    with running(make_app(typed, places)) as port:
        opened = Page(browser, f"http://127.0.0.1:{port}/")
        opened.find("word 06")
        opened.until(lambda: opened.name() == "word 06")
        opened.at("#type option[value=meaning]").click()
        wanted = [each["id"] for each in typed.neighbors("word 06", 8, node_type="meaning")]
        opened.until(lambda: opened.texts("#neighbors .id") == wanted)
        assert "type\nword\nlabel" in opened.at("#node").text
        opened.colour_by("type")
        opened.until(lambda: opened.legend() == [["meaning", "10"], ["word", "10"], ["author", "1"]])
        assert opened.errors() == []
    page.export(typed, places, tmp_path / "page.html")
    alone = Page(browser, (tmp_path / "page.html").as_uri())
    alone.find("word 06")
    alone.until(lambda: alone.name() == "word 06")
    links = typed.links("word 06", 5, why=True)
    assert alone.texts("#likely .id") == [each["target"] for each in links]
    assert alone.texts("#likely .why") == [each["why"] for each in links]
    assert "type\nword\nlabel" in alone.at("#node").text
    assert not alone.at("#of-type").is_displayed()


def test_names_are_shown_as_they_are(opened):
    opened.find("<b>bold")
    opened.until(lambda: opened.name() == "<b>bold</b>")
    opened.find("a/b?c")
    opened.until(lambda: opened.name() == "a/b?c=d&e")
    assert opened.errors() == []


def test_a_new_node(browser, server, answers):
    opened = Page(browser, server)
    opened.at("#text").send_keys("cat dog fur")
    opened.at("#describe button").click()
    opened.until(lambda: opened.all("#placed-neighbors .id"))
    nearest = [each.text for each in opened.all("#placed-neighbors .id")]
    assert nearest == [each["id"] for each in answers.embed(texts=["cat dog fur"], k=8)[0]["neighbors"]]
    links = answers.embed(texts=["cat dog fur"], k=8)[0]["links"]
    assert opened.texts("#placed-links .id") == [each["target"] for each in links[:5]]
    assert opened.map("view.star") is not None
    top = opened.browser.execute_script("return document.getElementById('placed').getBoundingClientRect().top")
    assert 0 <= top < 700, "the answer is in view"
    assert "Warning" not in opened.at("#placed").text
    opened.at("#text").clear()
    opened.at("#text").send_keys("gizmo flux")
    opened.at("#describe button").click()
    opened.until(lambda: "100 % of its attributes were never seen" in opened.at("#placed").text)
    assert "Nothing is known about it" in opened.at("#placed").text
    assert len(set(opened.texts("#placed-links .figure"))) == 1, "the density of the graph"
    opened.at("#text").clear()
    opened.at("#describe button").click()
    opened.until(lambda: opened.at("#placed").text == "")
    assert not opened.at("#placed-lists").is_displayed()
    assert opened.map("view.star") is None
    assert opened.errors() == []


def test_an_id_that_looks_like_a_script(browser, positions, model, tmp_path):
    odd = ["<!--<script>", "</script>", *list(model.embedding.ids)[2:]]
    asked = Answers(replace(model, embedding=replace(model.embedding, ids=NodeIds(odd))))
    page.export(asked, positions, tmp_path / "page.html")
    opened = Page(browser, (tmp_path / "page.html").as_uri())
    opened.find("<!--")
    opened.until(lambda: opened.name() == "<!--<script>")


def test_a_page_that_stands_alone_does_not_count_edges_that_the_model_does_not_keep(
    browser, model, positions, tmp_path
):
    page.export(Answers(replace(model, graph=None)), positions, tmp_path / "page.html")
    opened = Page(browser, (tmp_path / "page.html").as_uri())
    opened.find("node 07")
    opened.until(lambda: opened.name() == "node 07")
    assert "edges" not in opened.at("#node").text
    assert opened.errors() == []


def test_a_page_that_stands_alone_takes_no_description(browser, answers, positions, tmp_path):
    page.export(answers, positions, tmp_path / "page.html")
    opened = Page(browser, (tmp_path / "page.html").as_uri())
    assert not opened.at("#describe").is_displayed()


def test_dark_and_narrow(browser, server):
    try:
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        )
        opened = Page(browser, server)
        dark = opened.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert dark == "rgb(20, 23, 28)"
        browser.set_window_size(500, 900)
        opened.find("node 07")
        opened.until(lambda: opened.name() == "node 07")
        assert opened.browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert not opened.at("#legend").get_property("open"), "folded"
        opened.at("#legend-title").click()
        assert opened.at("#entries").is_displayed()
    finally:
        browser.set_window_size(1400, 900)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_picture_of_it(browser, server, tmp_path):
    """GLACE_SCREENSHOT=FILE takes the README's, of the model that `make demo` wrote."""
    wanted = os.environ.get("GLACE_SCREENSHOT")
    if wanted is None:
        opened = Page(browser, server)
        opened.find("node 07")
        opened.until(lambda: opened.name() == "node 07")
        browser.save_screenshot(str(tmp_path / "page.png"))
        assert (tmp_path / "page.png").stat().st_size > 10_000
        return
    path = Path("glace-demo/nouns.glace")
    model = glace.load(path)
    positions, found = map_of(model.embedding, path), clusters_of(model, path)
    with running(make_app(Answers(model, path.stem), positions, clusters=found)) as port:
        opened = Page(browser, f"http://127.0.0.1:{port}/")
        opened.find("n:piano")
        opened.until(lambda: opened.name() == "n:piano")
        opened.until(lambda: opened.all("#ellipses ellipse"))
        browser.execute_script("document.activeElement.blur()")
        time.sleep(1)
        browser.save_screenshot(wanted)


def test_a_page_of_too_many_nodes(answers, positions, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "MOST_NODES", 10)
    with pytest.raises(InputError, match="holds at most 10 nodes, not 90; use `glace explore`"):
        page.export(answers, positions, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
