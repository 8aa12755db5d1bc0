from __future__ import annotations

import coverage_page

SOURCE = [
    "def pick(it):",
    "    if it:",
    "        return 1",
    "    for each in it:",
    "        use(each)",
]
FILES = {
    "src/rushes/jobs/pick.py": {
        "summary": {
            "covered_lines": 3,
            "num_statements": 5,
            "covered_branches": 2,
            "num_branches": 4,
        },
        "missing_lines": [3, 5],
        "missing_branches": [[2, 3], [4, -1], [3, 5]],
    },
    "src/rushes/jobs/terms.py": {
        "summary": {
            "covered_lines": 2,
            "num_statements": 2,
            "covered_branches": 0,
            "num_branches": 0,
        },
        "missing_lines": [],
        "missing_branches": [],
    },
}


def test_each_branch_not_taken_is_named_with_both_its_lines() -> None:
    page = coverage_page.page(FILES, lambda name: SOURCE)
    assert page.partition("## Not taken\n\n")[2].splitlines() == [
        "- `jobs/pick.py:2` `if it:` → 3 `return 1`",
        "- `jobs/pick.py:4` `for each in it:` → the end of the function",
        "- `jobs/pick.py:5` `use(each)` is never reached",
    ]


def test_the_table_counts_lines_and_branches() -> None:
    page = coverage_page.page(FILES, lambda name: SOURCE)
    assert "| `jobs/pick.py` | 3 of 5 | 2 of 4 |\n| `jobs/terms.py` | 2 of 2 | – |" in page
    assert "| all | 5 of 7 | 2 of 4 |" in page


def test_where_all_is_taken_there_is_none() -> None:
    files = {"src/rushes/jobs/terms.py": FILES["src/rushes/jobs/terms.py"]}
    assert coverage_page.page(files, lambda name: SOURCE).endswith("## Not taken\n\nNone.\n")
