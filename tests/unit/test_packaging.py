"""The four top-level packages are ours, and no other distribution has put its files among them."""

from importlib.metadata import packages_distributions

import pytest


@pytest.mark.parametrize("package", ["configs", "flows", "storage", "tasks"])
def test_no_other_distribution_owns_our_packages(package):
    assert set(packages_distributions().get(package, [])) <= {"langadapt"}
