# SPDX-License-Identifier: BSD-3-Clause
"""Untested: written from Spack's documentation, never run. Copy it to
packages/exanest/package.py of a repository of yours ("spack repo create")."""

from spack.package import *


class Exanest(AutotoolsPackage):
    """An Open MPI transport that does not pin memory, and libpf, the library below it."""

    # Where the release is: set it, or use "spack develop" with a checkout.
    # url = "https://.../exanest-0.2.tar.xz"

    version("0.2")

    variant("mpi", default=True, description="Build the component for Open MPI")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2:")
    depends_on("libevent@2.1:+thread")
    depends_on("libsodium@1.0.11:")
    # The component includes internal headers: Open MPI configured with --with-devel-headers.
    depends_on("openmpi@4.1:5.0", when="+mpi")

    def configure_args(self):
        if self.spec.satisfies("~mpi"):
            return ["--without-ompi"]
        return [
            f"--with-ompi={self.spec['openmpi'].prefix}",
            f"--with-btl-dir={self.prefix.lib.openmpi}",
        ]

    def setup_run_environment(self, env):
        if self.spec.satisfies("+mpi"):
            env.prepend_path("OMPI_MCA_mca_base_component_path", self.spec["openmpi"].prefix.lib.openmpi)
            env.prepend_path("OMPI_MCA_mca_base_component_path", self.prefix.lib.openmpi)
