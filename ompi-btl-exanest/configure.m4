# -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
#
# For an Open MPI source tree: copy this folder to opal/mca/btl/exanest, put
# in-tree.am in the place of its Makefile.am, and run autogen.pl. libpf has to
# be installed; pkg-config finds it, or --with-libpf=DIR says where. Component
# smsc/exanest (ompi-smsc-exanest) uses EXANEST_LIBPF, and needs this folder.

# EXANEST_LIBPF
# ------------------------------------------------
# Find libpf, once for all components. Set exanest_libpf_happy, to yes or the
# reason, and exanest_libpf_CPPFLAGS, exanest_libpf_LDFLAGS, exanest_libpf_LIBS.
AC_DEFUN([EXANEST_LIBPF],[
    AC_REQUIRE([PKG_PROG_PKG_CONFIG])
    OPAL_VAR_SCOPE_PUSH([exanest_libpf_package exanest_libpf_file exanest_libpf_saved_CPPFLAGS exanest_libpf_saved_LDFLAGS exanest_libpf_saved_LIBS])

    AC_ARG_WITH([libpf],
        [AS_HELP_STRING([--with-libpf(=DIR)],
            [Build the components exanest with the libpf installed under DIR (default: the one that pkg-config finds); it is an error then if that is not possible])])
    AC_ARG_WITH([libpf-libdir],
        [AS_HELP_STRING([--with-libpf-libdir=DIR],
            [Look for libpf and its pkgconfig folder in DIR (default: lib, lib64 and their subfolders under the DIR of --with-libpf)])])

    # pkg-config takes the name of a package or that of a file.
    exanest_libpf_package=libpf
    AS_CASE([$with_libpf_libdir],
        [""|yes|no],
        [AS_CASE([$with_libpf],
            [""|yes|no], [],
            [exanest_libpf_package="$with_libpf/lib/pkgconfig/libpf.pc"
             for exanest_libpf_file in "$with_libpf"/lib64/pkgconfig/libpf.pc "$with_libpf"/lib/*/pkgconfig/libpf.pc; do
                 AS_IF([test ! -f "$exanest_libpf_package" && test -f "$exanest_libpf_file"], [exanest_libpf_package=$exanest_libpf_file])
             done])],
        [exanest_libpf_package="$with_libpf_libdir/pkgconfig/libpf.pc"])

    AC_MSG_CHECKING([for libpf])
    exanest_libpf_CPPFLAGS=
    exanest_libpf_LDFLAGS=
    exanest_libpf_LIBS=
    AS_IF([test "$with_libpf" = no],
        [exanest_libpf_happy="no, as --without-libpf asks for"],
        [test -z "$PKG_CONFIG"],
        [exanest_libpf_happy="no, pkg-config is missing"],
        [AS_IF([exanest_libpf_happy=`$PKG_CONFIG --exists --print-errors --errors-to-stdout "$exanest_libpf_package"`],
             [exanest_libpf_happy=yes
              exanest_libpf_CPPFLAGS=`$PKG_CONFIG --cflags "$exanest_libpf_package"`
              exanest_libpf_LDFLAGS=`$PKG_CONFIG --libs-only-L --libs-only-other "$exanest_libpf_package"`
              exanest_libpf_LIBS=`$PKG_CONFIG --libs-only-l "$exanest_libpf_package"`
              exanest_libpf_saved_CPPFLAGS=$CPPFLAGS
              exanest_libpf_saved_LDFLAGS=$LDFLAGS
              exanest_libpf_saved_LIBS=$LIBS
              CPPFLAGS="$CPPFLAGS $exanest_libpf_CPPFLAGS"
              LDFLAGS="$LDFLAGS $exanest_libpf_LDFLAGS"
              LIBS="$LIBS $exanest_libpf_LIBS"
              # The newest of what the components call.
              AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <libpf/pf.h>]],
                                 [[return pf_options_default(NULL, 0) + !pf_peer_contact;]])],
                  [], [exanest_libpf_happy="no, the components need another version of it"])
              CPPFLAGS=$exanest_libpf_saved_CPPFLAGS
              LDFLAGS=$exanest_libpf_saved_LDFLAGS
              LIBS=$exanest_libpf_saved_LIBS],
             [exanest_libpf_happy=`echo "no, pkg-config says: $exanest_libpf_happy" | tr '\n' ' '`])])
    AC_MSG_RESULT([$exanest_libpf_happy])

    AS_IF([test "$exanest_libpf_happy" != yes],
        [AS_CASE([$with_libpf],
             [""|no], [],
             [AC_MSG_ERROR([components exanest were asked for with --with-libpf=$with_libpf, but cannot be built: libpf: $exanest_libpf_happy])])])
    OPAL_VAR_SCOPE_POP
])dnl

# MCA_opal_btl_exanest_CONFIG([action-if-can-compile],
#                             [action-if-cant-compile])
# ------------------------------------------------
AC_DEFUN([MCA_opal_btl_exanest_CONFIG],[
    AC_REQUIRE([EXANEST_LIBPF])
    AC_CONFIG_FILES([opal/mca/btl/exanest/Makefile])

    AS_IF([test "$exanest_libpf_happy" = yes], [$1], [$2])
    OPAL_SUMMARY_ADD([Transports], [exanest (libpf)], [], [${exanest_libpf_happy%%,*}])

    # Open MPI 4.1 has a prefix for its libraries, 5.0 and later a name for this one.
    AS_IF([test -n "$OPAL_LIB_NAME"],
        [btl_exanest_opal="lib$OPAL_LIB_NAME.la"],
        [btl_exanest_opal="lib${OPAL_LIB_PREFIX}open-pal.la"])
    btl_exanest_CPPFLAGS=$exanest_libpf_CPPFLAGS
    btl_exanest_LDFLAGS=$exanest_libpf_LDFLAGS
    btl_exanest_LIBS=$exanest_libpf_LIBS
    AC_SUBST([btl_exanest_opal])
    AC_SUBST([btl_exanest_CPPFLAGS])
    AC_SUBST([btl_exanest_LDFLAGS])
    AC_SUBST([btl_exanest_LIBS])
])dnl
