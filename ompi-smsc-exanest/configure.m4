# -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
#
# For a source tree of Open MPI 5 or later: copy this folder to
# opal/mca/smsc/exanest, and put in-tree.am in the place of its Makefile.am.
# The folder of component btl/exanest has to be in the tree, too: its
# configure.m4 has the search for libpf, and the other steps.

# MCA_opal_smsc_exanest_CONFIG([action-if-can-compile],
#                              [action-if-cant-compile])
# ------------------------------------------------
AC_DEFUN([MCA_opal_smsc_exanest_CONFIG],[
    m4_ifndef([EXANEST_LIBPF],
        [m4_fatal([opal/mca/smsc/exanest needs opal/mca/btl/exanest, which has the search for libpf: copy that folder of exanest, too])])
    AC_REQUIRE([EXANEST_LIBPF])
    AC_CONFIG_FILES([opal/mca/smsc/exanest/Makefile])

    AS_IF([test "$exanest_libpf_happy" = yes], [$1], [$2])
    OPAL_SUMMARY_ADD([Transports], [Shared memory/exanest (libpf)], [], [${exanest_libpf_happy%%,*}])

    smsc_exanest_CPPFLAGS=$exanest_libpf_CPPFLAGS
    smsc_exanest_LDFLAGS=$exanest_libpf_LDFLAGS
    smsc_exanest_LIBS=$exanest_libpf_LIBS
    AC_SUBST([smsc_exanest_CPPFLAGS])
    AC_SUBST([smsc_exanest_LDFLAGS])
    AC_SUBST([smsc_exanest_LIBS])
])dnl
