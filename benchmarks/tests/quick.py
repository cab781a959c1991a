# SPDX-License-Identifier: BSD-3-Clause
"""What is left out where all of it has been run already: PF_TEST_QUICK."""

import os
import unittest

thorough = unittest.skipIf("PF_TEST_QUICK" in os.environ, "PF_TEST_QUICK is set")
