# The libraries that prenorm stands on, at Debian 12's versions or newer. Nothing is downloaded.
find_package(Threads REQUIRED)
include(PrenormHighway)
find_package(fmt 9 REQUIRED CONFIG)
find_package(nlohmann_json 3.11 REQUIRED CONFIG)
find_package(tomlplusplus 3 REQUIRED CONFIG)
if(PRENORM_BUILD_PROGRAM OR PRENORM_BUILD_TESTS)
  find_package(CLI11 2.1 REQUIRED CONFIG)
endif()
