# SPDX-License-Identifier: BSD-3-Clause

# EXANEST_OMPI: find Open MPI with its internal headers, which a component is
# built from, and decide where the component is installed.
#
# Sets OMPI_CPPFLAGS (as system headers: their warnings are not ours), OMPI_CFLAGS,
# OMPI_LIBS for MPI programs, OPAL_LIBS for the component, MPIRUN, btldir.
AC_DEFUN([EXANEST_OMPI], [
	AC_ARG_WITH([ompi],
		[AS_HELP_STRING([--with-ompi=DIR],
			[build the component for the Open MPI installed under DIR
			 (default: the mpicc in PATH); --without-ompi builds none])],
		[], [with_ompi=check])
	AC_ARG_WITH([btl-dir],
		[AS_HELP_STRING([--with-btl-dir=DIR],
			[install the component in DIR (default: where that Open MPI looks, if
			 it or the prefix is a system one; else LIBDIR/openmpi).
			 ~/.openmpi/components is searched by every Open MPI 4.1])],
		[], [with_btl_dir=])
	AS_CASE([$with_btl_dir], [yes|no], [AC_MSG_ERROR([--with-btl-dir needs a folder])])

	exanest_found_ompi=
	AS_CASE([$with_ompi],
		[no], [exanest_ompi_path=],
		[yes|check], [exanest_ompi_path=$PATH],
		[exanest_ompi_path=$with_ompi/bin])
	AS_IF([test "x$with_ompi" != xno], [
		AC_PATH_PROG([MPICC], [mpicc], [], [$exanest_ompi_path])
		AC_PATH_PROG([MPIRUN], [mpirun], [], [$exanest_ompi_path])
		AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$exanest_ompi_path])
		AS_IF([test -n "$MPICC" && test -n "$OMPI_INFO"], [EXANEST_OMPI_HEADERS])
		AS_IF([test -z "$exanest_found_ompi" && test "x$with_ompi" != xcheck], [
			AC_MSG_ERROR([--with-ompi=$with_ompi: no usable Open MPI 4.1 or 5.0 with development headers there (config.log has the reason)])
		])
	])
	exanest_ompi_shown=$exanest_found_ompi
	AS_IF([test "x$with_ompi" = xno],
		[exanest_ompi_shown="not wanted: no BTL component, no MPI tests, no comparison"])
	EXANEST_SAY([Open MPI], [$exanest_ompi_shown],
		[no BTL component, no MPI tests, no comparison], [libopenmpi-dev openmpi-bin])
	AM_CONDITIONAL([HAVE_OMPI], [test -n "$exanest_found_ompi"])
	# opal's inline functions need it where Open MPI was built with it; it exists on x86 only.
	EXANEST_TRY_FLAG([-mcx16], [OMPI_CFLAGS=-mcx16])
	AC_SUBST([OMPI_CFLAGS])
	AC_SUBST([OMPI_CPPFLAGS])
	AC_SUBST([OMPI_LIBS])
	AC_SUBST([OPAL_LIBS])
	AC_SUBST([ompi_pkglibdir])
	EXANEST_BTL_DIR
])

AC_DEFUN([EXANEST_OMPI_HEADERS], [
	for dir in `$MPICC --showme:incdirs 2>&AS_MESSAGE_LOG_FD`; do
		for sub in "$dir" "$dir/openmpi"; do
			AS_CASE([" $OMPI_CPPFLAGS "], [*" -isystem $sub "*], [continue])
			AS_IF([test "$sub" != /usr/include && test -d "$sub"],
				[OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem $sub"])
		done
	done
	OMPI_LIBS=`$MPICC --showme:link 2>&AS_MESSAGE_LOG_FD`
	EXANEST_OMPI_PATH([libdir], [ompi_libdir])
	EXANEST_OMPI_PATH([pkglibdir], [ompi_pkglibdir])
	OPAL_LIBS="-L$ompi_libdir -lopen-pal"

	AC_MSG_CHECKING([for the headers of Open MPI's BTL interface])
	exanest_saved_cppflags=$CPPFLAGS
	CPPFLAGS="$CPPFLAGS $OMPI_CPPFLAGS"
	AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
		#include <mpi.h>
		#if OMPI_MAJOR_VERSION * 100 + OMPI_MINOR_VERSION < 401 || OMPI_MAJOR_VERSION > 5
		#error the component is written for Open MPI 4.1 and 5.0
		#endif
		exanest_version OMPI_MAJOR_VERSION.OMPI_MINOR_VERSION.OMPI_RELEASE_VERSION
	]])], [
		exanest_ompi_version=`$MPICC --showme:version 2>/dev/null |
			sed -n 's/.*Open MPI \([[^ ]]*\).*/\1/p'`
	], [exanest_ompi_version=])
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
		#include <opal_config.h>
		#include <opal/mca/btl/btl.h>
		#include <opal/class/opal_free_list.h>
		#include <opal/util/show_help.h>
	]], [[
		mca_btl_base_component_t component = {
			.btl_version = { MCA_BTL_DEFAULT_VERSION("exanest") },
		};
		return component.btl_version.mca_type_major_version != 3;
	]])], [exanest_found=yes], [exanest_found=no])
	CPPFLAGS=$exanest_saved_cppflags
	AC_MSG_RESULT([$exanest_found])
	AS_IF([test $exanest_found = yes && test -n "$exanest_ompi_version" &&
	       test -n "$ompi_pkglibdir"],
		[exanest_found_ompi="$exanest_ompi_version ($MPICC)"])
])

# EXANEST_OMPI_PATH(WHAT, VARIABLE)
AC_DEFUN([EXANEST_OMPI_PATH], [
	$2=`$OMPI_INFO --parsable --path $1 2>&AS_MESSAGE_LOG_FD | sed -n 's/^path:$1://p'`
])

AC_DEFUN([EXANEST_BTL_DIR], [
	exanest_prefix=$prefix
	AS_IF([test "x$exanest_prefix" = xNONE], [exanest_prefix=$ac_default_prefix])
	exanest_note=
	AS_IF([test -n "$with_btl_dir"], [
		btldir=$with_btl_dir
	], [test "x$with_ompi" != xcheck && test "x$with_ompi" != xyes], [
		btldir=$ompi_pkglibdir
	], [test "$exanest_prefix" = /usr || test "$exanest_prefix" = /usr/local], [
		btldir=$ompi_pkglibdir
	], [
		btldir='${libdir}/openmpi'
	])
	AS_IF([test -z "$exanest_found_ompi"], [
		btldir='${libdir}/openmpi'
		exanest_btl_dir_shown="none: there is no component"
	], [
		exanest_libdir=`prefix=$exanest_prefix; exec_prefix=$exanest_prefix; eval echo "$libdir"`
		exanest_btl_dir_shown=`libdir=$exanest_libdir; prefix=$exanest_prefix; eval echo "$btldir"`
		AS_CASE([$exanest_btl_dir_shown],
			["$ompi_pkglibdir"|"$HOME/.openmpi/components"], [],
			[exanest_note="Open MPI does not look in that folder by itself. After make install:
  export OMPI_MCA_mca_base_component_path=$exanest_btl_dir_shown:$ompi_pkglibdir
or configure with --with-btl-dir=$HOME/.openmpi/components, which it searches by default."])
	])
	AC_SUBST([btldir])
])
