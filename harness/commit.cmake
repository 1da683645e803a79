# Writes which commit of SOURCE a build is of, from commit.cc.in into OUTPUT.
# Does not touch a file that is up to date, so nothing is rebuilt.
#
#   cmake -D GIT=git -D SOURCE=. -D OUTPUT=commit.cc -P commit.cmake
#
# "unknown" where SOURCE is not the top of a repository: the commit of one
# around it says nothing about it.
set(hash unknown)
set(dirty false)

# The output of git in SOURCE; "" if it fails.
function(git result)
  execute_process(COMMAND ${GIT} --no-optional-locks ${ARGN}
                  WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE failed
                  OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failed)
    set(output "")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

if(GIT)
  git(top rev-parse --show-toplevel)
  git(head rev-parse HEAD)
  file(REAL_PATH "${SOURCE}" source)
  if(head AND top STREQUAL source)
    git(changes status --porcelain --untracked-files=no)
    set(hash ${head})
    if(changes)
      set(dirty true)
    endif()
  endif()
endif()

configure_file(${CMAKE_CURRENT_LIST_DIR}/commit.cc.in ${OUTPUT} @ONLY)
