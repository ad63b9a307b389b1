# The module that gives the program its ranks under mpirun (prenorm/cli/mpi_module.h). Neither the
# library nor the program is linked with MPI. PRENORM_MPI: ON, OFF, or AUTO: where there is one.
set(PRENORM_MPI AUTO CACHE STRING "Train under mpirun: AUTO, ON or OFF")
set_property(CACHE PRENORM_MPI PROPERTY STRINGS AUTO ON OFF)
if(PRENORM_MPI STREQUAL "AUTO")
  find_package(MPI QUIET COMPONENTS CXX)
elseif(PRENORM_MPI)
  find_package(MPI REQUIRED COMPONENTS CXX)
endif()
if(PRENORM_MPI AND MPI_CXX_FOUND)
  add_library(prenorm_mpi MODULE prenorm/cli/mpi_module.cc)
  set_target_properties(prenorm_mpi PROPERTIES PREFIX "" SUFFIX ".so" CXX_VISIBILITY_PRESET hidden)
  # MPI's own C++ interface is gone from the standard and full of warnings.
  target_compile_definitions(prenorm_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_include_directories(prenorm_mpi SYSTEM PRIVATE ${MPI_CXX_INCLUDE_DIRS})
  target_include_directories(prenorm_mpi PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(prenorm_mpi PRIVATE prenorm_options MPI::MPI_CXX)
  add_dependencies(prenorm_program prenorm_mpi)
endif()
