// Codec parameters as the codec that reads them. Pure functions.
#pragma once

#include "codec/linear/linear_parameters.h"
#include "codec/static_tables.h"

namespace kvstrata::codec {

/// nullptr if there are none, or another codec's.
inline const TableSet* tables_in(const CodecParameters* parameters) {
  const bool are = parameters != nullptr && parameters->codec() == CodecId::static_tables;
  return are ? static_cast<const TableSet*>(parameters) : nullptr;
}
inline const LinearModel* linear_model_in(const CodecParameters* parameters) {
  const bool is = parameters != nullptr && parameters->codec() == CodecId::linear;
  return is ? &static_cast<const LinearParameters*>(parameters)->model() : nullptr;
}

/// True where there are none, or where they are for blocks like those of a checked shape.
inline bool fit_shape(const CodecParameters* parameters, const BlockShape& shape) {
  if (const TableSet* const tables = tables_in(parameters)) {
    return tables->dimensions() == TableSet::Dimensions::of(shape);
  }
  const LinearModel* const model = linear_model_in(parameters);
  return model == nullptr || serves(*model, shape);
}

}  // namespace kvstrata::codec
