# -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
#
# For an Open MPI source tree: copy this folder to opal/mca/btl/exanest, put
# in-tree.am in the place of its Makefile.am, and run autogen.pl. libpf has to
# be installed; --with-libpf=DIR says where if the compiler does not find it.

# MCA_opal_btl_exanest_CONFIG([action-if-can-compile],
#                             [action-if-cant-compile])
# ------------------------------------------------
AC_DEFUN([MCA_opal_btl_exanest_CONFIG],[
    OPAL_VAR_SCOPE_PUSH([btl_exanest_happy btl_exanest_saved_CPPFLAGS btl_exanest_saved_LDFLAGS btl_exanest_saved_LIBS])
    AC_CONFIG_FILES([opal/mca/btl/exanest/Makefile])

    AC_ARG_WITH([libpf],
        [AS_HELP_STRING([--with-libpf(=DIR)],
            [Build BTL exanest with the libpf installed under DIR; it is an error then if that is not possible])])

    btl_exanest_CPPFLAGS=
    btl_exanest_LDFLAGS=
    btl_exanest_LIBS=-lpf
    AS_CASE([$with_libpf],
        [""|yes|no], [],
        [btl_exanest_CPPFLAGS="-I$with_libpf/include"
         btl_exanest_LDFLAGS="-L$with_libpf/lib"])

    btl_exanest_happy=no
    AS_IF([test "$with_libpf" != no],
        [btl_exanest_saved_CPPFLAGS=$CPPFLAGS
         btl_exanest_saved_LDFLAGS=$LDFLAGS
         btl_exanest_saved_LIBS=$LIBS
         CPPFLAGS="$CPPFLAGS $btl_exanest_CPPFLAGS"
         LDFLAGS="$LDFLAGS $btl_exanest_LDFLAGS"
         LIBS="$LIBS $btl_exanest_LIBS"
         AC_MSG_CHECKING([for libpf])
         AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <pf.h>]],
                            [[return pf_options_init(NULL, NULL) + pf_stat_table()->name[0];]])],
             [btl_exanest_happy=yes])
         AC_MSG_RESULT([$btl_exanest_happy])
         CPPFLAGS=$btl_exanest_saved_CPPFLAGS
         LDFLAGS=$btl_exanest_saved_LDFLAGS
         LIBS=$btl_exanest_saved_LIBS])

    AS_IF([test "$btl_exanest_happy" = yes],
        [$1],
        [AS_CASE([$with_libpf],
             [""|no], [],
             [AC_MSG_ERROR([BTL exanest was asked for with --with-libpf=$with_libpf, but no libpf is there])])
         $2])

    # Open MPI 4.1 has a prefix for its libraries, 5.0 and later a name for this one.
    AS_IF([test -n "$OPAL_LIB_NAME"],
        [btl_exanest_opal="lib$OPAL_LIB_NAME.la"],
        [btl_exanest_opal="lib${OPAL_LIB_PREFIX}open-pal.la"])
    AC_SUBST([btl_exanest_opal])
    AC_SUBST([btl_exanest_CPPFLAGS])
    AC_SUBST([btl_exanest_LDFLAGS])
    AC_SUBST([btl_exanest_LIBS])
    OPAL_VAR_SCOPE_POP
])dnl
