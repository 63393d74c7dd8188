# .deb and .rpm from an installed ddprun: scripts/package sets DDPRUN_STAGE, DDPRUN_PROCESSOR, DDPRUN_VERSION and
# DDPRUN_GLIBC in the environment of cpack, which reads -D only after this file.
# Neither names a scheduler, MPI or Python: ddprun loads what it finds.
set(CPACK_PACKAGE_NAME ddprun)
set(CPACK_PACKAGE_VERSION "$ENV{DDPRUN_VERSION}")
set(CPACK_PACKAGE_FILE_NAME "ddprun-${CPACK_PACKAGE_VERSION}-$ENV{DDPRUN_PROCESSOR}")
set(CPACK_PACKAGE_VENDOR "ddprun developers")
set(CPACK_PACKAGE_CONTACT "ddprun developers <OWNER@users.noreply.github.com>")
set(CPACK_PACKAGE_HOMEPAGE_URL "https://github.com/OWNER/ddprun")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Starts PyTorch jobs on one machine or a whole allocation")
set(CPACK_PACKAGE_DESCRIPTION "ddprun replaces torchrun or a page of shell in batch scripts: it detects
the nodes of the allocation, starts the workers with the variables of
torchrun, and restarts them together when one fails.")
set(CPACK_RPM_PACKAGE_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_INSTALLED_DIRECTORIES "$ENV{DDPRUN_STAGE};/usr")
set(CPACK_SET_DESTDIR OFF)
set(CPACK_STRIP_FILES OFF)

if("$ENV{DDPRUN_PROCESSOR}" STREQUAL aarch64)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
else()
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= $ENV{DDPRUN_GLIBC})")
set(CPACK_DEBIAN_PACKAGE_SECTION utils)

set(CPACK_RPM_PACKAGE_ARCHITECTURE "$ENV{DDPRUN_PROCESSOR}")
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE BSD-3-Clause)
set(CPACK_RPM_PACKAGE_AUTOREQPROV " no")
set(CPACK_RPM_PACKAGE_URL "${CPACK_PACKAGE_HOMEPAGE_URL}")
set(CPACK_RPM_USER_FILELIST "%license /usr/share/doc/ddprun/LICENSE" "%license /usr/share/doc/ddprun/licences")
set(CPACK_RPM_PACKAGE_REQUIRES "glibc >= $ENV{DDPRUN_GLIBC}")
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/man /usr/share/man/man1 /usr/share/man/man5 /usr/share/zsh
  /usr/share/zsh/site-functions /usr/share/bash-completion /usr/share/bash-completion/completions /usr/share/fish
  /usr/share/fish/vendor_completions.d /usr/share/doc)
# Two builds are equal: no host, no time of day, nothing that rpm adds or changes.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _build_id_links none
%define __os_install_post %{nil}
%define debug_package %{nil}
%define packager ${CPACK_PACKAGE_CONTACT}
%define _binary_payload w9.gzdio")
