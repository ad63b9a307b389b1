// Folders and the files in them, changed so that a crash leaves the old or the new.
//
//   replace_folder_durably("RUN/.saving", "RUN/checkpoint-20");   // whole, or not at all
//   link_file("RUN/checkpoint-20/model.safetensors", "RUN/model.safetensors");
//   sync_folder("RUN");
//   remove_folder("RUN/checkpoint-10");
//   remove_leftovers("RUN");   // at the next start: what a killed process could not remove
//
// Every failure is an IoError that names the path and the system's reason.
#pragma once
#include <filesystem>
#include <vector>

namespace prenorm {

// The one that a path is in: "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& path);

// What is in the folder, in no order.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

// When it returns, names made, changed and removed in the folder are on disk. Of file systems that
// cannot sync a folder nothing is asked.
void sync_folder(const std::filesystem::path& folder);

// The folder `from` takes the name `to`, and the folder that stood there is removed after that is
// on disk. The two are exchanged in one step where the system can; elsewhere a crash between two
// renames leaves the old one as ".replaced-NAME", which remove_leftovers() puts back.
void replace_folder_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Makes `to` another name of the file `from`, in place of what stood there, or a copy where the
// file system has no hard links. The folder is for the caller to sync.
void link_file(const std::filesystem::path& from, const std::filesystem::path& to);

// Removes a folder with all that is in it: it is gone under its name before anything in it is.
void remove_folder(const std::filesystem::path& folder);

// What killed processes left in the folder: folders ".saving…" and ".removing-…", temporary files
// of write_file_durably() and link_file() whose process does not live. Puts ".replaced-NAME" back
// where NAME is missing. Nobody else may be at work in the folder (file_lock.h).
void remove_leftovers(const std::filesystem::path& folder);

// Moves the files of one folder into another of the same file system, over those of the same names,
// and removes the first. Cut off in the middle, each file is in one of the two, whole, and calling
// it again finishes it.
void move_files_durably(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace prenorm
