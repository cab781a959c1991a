# -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
#
# For an Open MPI source tree: copy this folder to opal/mca/btl/exanest, put
# in-tree.am in the place of its Makefile.am, and run autogen.pl. libpf has to
# be installed; pkg-config finds it, or --with-libpf=DIR says where.

# MCA_opal_btl_exanest_CONFIG([action-if-can-compile],
#                             [action-if-cant-compile])
# ------------------------------------------------
AC_DEFUN([MCA_opal_btl_exanest_CONFIG],[
    AC_REQUIRE([PKG_PROG_PKG_CONFIG])
    OPAL_VAR_SCOPE_PUSH([btl_exanest_happy btl_exanest_package btl_exanest_file btl_exanest_saved_CPPFLAGS btl_exanest_saved_LDFLAGS btl_exanest_saved_LIBS])
    AC_CONFIG_FILES([opal/mca/btl/exanest/Makefile])

    AC_ARG_WITH([libpf],
        [AS_HELP_STRING([--with-libpf(=DIR)],
            [Build BTL exanest with the libpf installed under DIR (default: the one that pkg-config finds); it is an error then if that is not possible])])
    AC_ARG_WITH([libpf-libdir],
        [AS_HELP_STRING([--with-libpf-libdir=DIR],
            [Look for libpf and its pkgconfig folder in DIR (default: lib, lib64 and their subfolders under the DIR of --with-libpf)])])

    # pkg-config takes the name of a package or that of a file.
    btl_exanest_package=libpf
    AS_CASE([$with_libpf_libdir],
        [""|yes|no],
        [AS_CASE([$with_libpf],
            [""|yes|no], [],
            [btl_exanest_package="$with_libpf/lib/pkgconfig/libpf.pc"
             for btl_exanest_file in "$with_libpf"/lib64/pkgconfig/libpf.pc "$with_libpf"/lib/*/pkgconfig/libpf.pc; do
                 AS_IF([test ! -f "$btl_exanest_package" && test -f "$btl_exanest_file"], [btl_exanest_package=$btl_exanest_file])
             done])],
        [btl_exanest_package="$with_libpf_libdir/pkgconfig/libpf.pc"])

    AC_MSG_CHECKING([for libpf])
    btl_exanest_CPPFLAGS=
    btl_exanest_LDFLAGS=
    btl_exanest_LIBS=
    AS_IF([test "$with_libpf" = no],
        [btl_exanest_happy="no, as --without-libpf asks for"],
        [test -z "$PKG_CONFIG"],
        [btl_exanest_happy="no, pkg-config is missing"],
        [AS_IF([btl_exanest_happy=`$PKG_CONFIG --exists --print-errors --errors-to-stdout "$btl_exanest_package"`],
             [btl_exanest_happy=yes
              btl_exanest_CPPFLAGS=`$PKG_CONFIG --cflags "$btl_exanest_package"`
              btl_exanest_LDFLAGS=`$PKG_CONFIG --libs-only-L --libs-only-other "$btl_exanest_package"`
              btl_exanest_LIBS=`$PKG_CONFIG --libs-only-l "$btl_exanest_package"`
              btl_exanest_saved_CPPFLAGS=$CPPFLAGS
              btl_exanest_saved_LDFLAGS=$LDFLAGS
              btl_exanest_saved_LIBS=$LIBS
              CPPFLAGS="$CPPFLAGS $btl_exanest_CPPFLAGS"
              LDFLAGS="$LDFLAGS $btl_exanest_LDFLAGS"
              LIBS="$LIBS $btl_exanest_LIBS"
              # The newest of what the component calls.
              AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <libpf/pf.h>]],
                                 [[return pf_options_default(NULL, 0) + !pf_peer_contact;]])],
                  [], [btl_exanest_happy="no, the component needs another version of it"])
              CPPFLAGS=$btl_exanest_saved_CPPFLAGS
              LDFLAGS=$btl_exanest_saved_LDFLAGS
              LIBS=$btl_exanest_saved_LIBS],
             [btl_exanest_happy=`echo "no, pkg-config says: $btl_exanest_happy" | tr '\n' ' '`])])
    AC_MSG_RESULT([$btl_exanest_happy])

    AS_IF([test "$btl_exanest_happy" = yes],
        [$1],
        [AS_CASE([$with_libpf],
             [""|no], [],
             [AC_MSG_ERROR([BTL exanest was asked for with --with-libpf=$with_libpf, but it cannot be built: libpf: $btl_exanest_happy])])
         $2])
    OPAL_SUMMARY_ADD([Transports], [exanest (libpf)], [], [${btl_exanest_happy%%,*}])

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
