#!/usr/bin/python3
"""What a person does with a page of `convoy replay --html`. Takes a folder of pages."""

import pathlib
import sys
import unittest

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PAGES = pathlib.Path(sys.argv.pop(1)).resolve()
KINDS = [
    "rich", "refused", "sets-unknown", "one-thread", "no-lock", "disputed", "worthless", "hostile",
]
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,900",
    "--disable-dev-shm-usage",
]
SERVICE = webdriver.chrome.service.Service("/usr/bin/chromedriver")
# How much wider the page is than its window.
OVER = "const e = document.documentElement; return e.scrollWidth - e.clientWidth"
VIEWS = """
return [...document.querySelectorAll('.lanes-of-run')].map((e) => e.viewBox.baseVal.width);
"""
BOXES = """
const boxes = [...document.querySelectorAll(arguments[0])].map((e) => e.getBoundingClientRect());
return boxes.map((box) => [box.left, box.right]);
"""
MOVE = """
const input = arguments[0].querySelector('input');
input.value = arguments[1];
input.dispatchEvent(new Event('input'));
"""


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in FLAGS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=SERVICE, options=options)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()

    def open(self, name):
        self.browser.get("about:blank")
        self.browser.get(f"file://{PAGES / name}.html")
        is_ready = lambda b: b.find_elements(By.CSS_SELECTOR, "body.ready")
        WebDriverWait(self.browser, 30).until(is_ready)

    def tearDown(self):
        log = self.browser.get_log("browser")
        self.assertEqual([e for e in log if e["level"] in ("SEVERE", "WARNING")], [])
        self.assertFalse(self.browser.execute_script("return window.harmed === 1"))

    def find_all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def boxes(self, selector):
        return self.browser.execute_script(BOXES, selector)

    def test_pages_fit_the_window_and_can_be_pictured(self):
        for kind in KINDS:
            for width in (1300, 500):
                with self.subTest(kind=kind, width=width):
                    self.browser.set_window_size(width, 900)
                    self.open(kind)
                    over = self.browser.execute_script(OVER)
                    self.assertLessEqual(over, 0)
            self.browser.set_window_size(1300, 900)
            self.open(kind)
            height = self.browser.execute_script("return document.body.scrollHeight")
            self.browser.set_window_size(1300, min(height + 150, 8000))
            self.browser.save_screenshot(str(PAGES / f"{kind}.png"))
        self.browser.set_window_size(1300, 900)

    def test_both_runs_share_one_axis(self):
        self.open("rich")
        recorded, free = self.boxes(".lanes-of-run")
        self.assertEqual(recorded, free)
        ends = self.boxes(".lanes-of-run .after")
        self.assertGreater(ends[0][0], ends[1][0] + 100)

    def test_zoom_changes_both_runs_and_the_axis(self):
        self.open("rich")
        labels = lambda: [label.text for label in self.find_all(".ticks span")]
        before = labels()
        self.assertEqual(before, ["0.0 ms", "0.5 ms", "1.0 ms", "1.5 ms", "2.0 ms"])
        self.browser.execute_script("document.querySelector('[data-zoom=in]').click()")
        views = self.browser.execute_script(VIEWS)
        self.assertEqual(views, [5e5, 5e5])
        self.assertNotEqual(labels(), before)
        self.assertTrue(all(label.endswith(" ms") for label in labels()), labels())
        self.browser.execute_script("document.querySelector('[data-zoom=all]').click()")
        self.assertEqual(labels(), before)

    def test_a_slider_shows_the_answer_of_its_position(self):
        self.open("rich")
        dial = self.find_all(".dial")[0]
        seen = set()
        for at in range(4):
            self.browser.execute_script(MOVE, dial, at)
            points = dial.find_elements(By.CSS_SELECTOR, ".points li")
            points = [point.text for point in points if point.is_displayed()]
            self.assertEqual(len(points), 1)
            seen.add(points[0])
        self.assertEqual(len(seen), 4)
        self.assertTrue(any(text.split()[:2] == ["16:", "1.7x"] for text in seen), seen)

    def test_a_gain_is_right_of_nothing_and_inside_its_interval(self):
        self.open("rich")
        zero = self.boxes(".what-ifs tr:nth-child(2) .zero")[0]
        expected = self.boxes(".what-ifs tr:nth-child(2) .expected")[0]
        interval = self.boxes(".what-ifs tr:nth-child(2) .interval")[0]
        self.assertLess(zero[0], expected[1])
        self.assertLess(interval[0], expected[1])
        self.assertLess(expected[1], interval[1])


if __name__ == "__main__":
    unittest.main()
