#include "storage/device/uring_tables.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "kvstrata/bytes.h"
#include "kvstrata/check.h"

namespace kvstrata::storage {

namespace {

// More buffers than these go by address, as more files than ring_file_places by descriptor.
constexpr unsigned buffer_places = 256;

// The kernel's limit for one registered buffer.
constexpr std::uint64_t piece_bytes = 1_GiB;

}  // namespace

void UringFileTable::attach(UringRing& ring) {
  available_ = ring.has_file_table();
  for (Place& place : places_) {
    place.current = place.fd < 0;
    place.refused = false;
  }
  changed_ = true;
}

void UringFileTable::want(std::size_t place, int fd) {
  if (place >= ring_file_places) {
    return;
  }
  if (place >= places_.size()) {
    places_.resize(place + 1);
  }
  // Never current, even for an equal number: it may be another file by now.
  places_[place] = {.fd = fd, .current = false};
  changed_ = true;
}

void UringFileTable::apply(UringRing& ring) {
  if (!changed_ || !available_) {
    return;
  }
  changed_ = false;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (!place.current && !place.refused) {
      const int status = ring.system().update_file(*ring.raw(), static_cast<unsigned>(i), place.fd);
      place.current = status == 1;
      place.refused = !place.current && place.fd >= 0;
      // The kernel keeps a removed file and its space until its place is given up.
      changed_ = changed_ || (!place.current && place.fd < 0);
    }
  }
}

bool UringFileTable::holds(std::size_t place) const {
  return available_ && place < places_.size() && places_[place].current && places_[place].fd >= 0;
}

void UringBufferTable::attach(UringRing& ring) {
  const int status = ring.system().register_buffers(*ring.raw(), buffer_places);
  available_ = status == 0;
  refused_with_ = -status;
  for (Place& place : places_) {
    place.current = place.piece.iov_len == 0;
    place.refused = false;
  }
  changed_ = true;
}

Status UringBufferTable::want(std::byte* buffer, std::uint64_t bytes) {
  if (!available_) {
    return Error(ErrorKind::unsupported,
                 std::string("the kernel gives no table of buffers (since Linux 5.19): ") +
                     std::strerror(refused_with_));  // NOLINT(concurrency-mt-unsafe): glibc's
  }
  const std::uint64_t pieces = (bytes + piece_bytes - 1) / piece_bytes;
  Region region{.bytes = bytes};
  for (unsigned i = 0; i < buffer_places && region.places.size() < pieces; ++i) {
    // A place whose last buffer the kernel would not give up is left alone.
    if (i >= places_.size() || (places_[i].piece.iov_len == 0 && !places_[i].refused)) {
      region.places.push_back(i);
    }
  }
  if (region.places.size() < pieces) {
    return Error(ErrorKind::busy, "the table of registered buffers is full");
  }
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const unsigned at = region.places[i];
    if (at >= places_.size()) {
      places_.resize(at + 1);
    }
    const std::uint64_t offset = i * piece_bytes;
    places_[at] = {
        .piece = {.iov_base = buffer + offset, .iov_len = std::min(piece_bytes, bytes - offset)},
        .current = false};
  }
  regions_.emplace(buffer, std::move(region));
  changed_ = true;
  return {};
}

void UringBufferTable::drop(std::byte* buffer) {
  const auto found = regions_.find(buffer);
  KV_CHECK(found != regions_.end(), "drop of a buffer that was never wanted");
  for (const unsigned at : found->second.places) {
    places_[at] = {.piece = {}, .current = false};
  }
  regions_.erase(found);
  changed_ = true;
}

Status UringBufferTable::apply(UringRing& ring) {
  Status first;
  if (!changed_ || !available_) {
    return first;
  }
  changed_ = false;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (place.current || place.refused) {
      continue;
    }
    const int status =
        ring.system().update_buffer(*ring.raw(), static_cast<unsigned>(i), place.piece);
    place.current = status == 1;
    place.refused = !place.current;
    if (place.refused && first) {
      first = error_from_errno(
          status < 0 ? -status : EIO,
          "io_uring_register: buffer of " + std::to_string(place.piece.iov_len) + " bytes");
    }
  }
  return first;
}

std::optional<unsigned> UringBufferTable::place_of(const std::byte* buffer,
                                                   std::uint64_t bytes) const {
  auto found = regions_.upper_bound(buffer);
  if (!available_ || found == regions_.begin()) {
    return std::nullopt;
  }
  --found;
  const auto offset = static_cast<std::uint64_t>(buffer - found->first);
  if (offset + bytes > found->second.bytes ||
      offset / piece_bytes != (offset + bytes - 1) / piece_bytes) {
    return std::nullopt;
  }
  const unsigned at = found->second.places[offset / piece_bytes];
  return places_[at].current ? std::optional(at) : std::nullopt;
}

bool UringBufferTable::holds(std::byte* buffer) const {
  const auto found = regions_.find(buffer);
  return available_ && found != regions_.end() &&
         std::all_of(found->second.places.begin(), found->second.places.end(),
                     [this](unsigned at) { return places_[at].current; });
}

}  // namespace kvstrata::storage
