# SPDX-License-Identifier: Apache-2.0 OR MIT
# A shop in Sinatra: a catalogue that is loaded at the start, of which /N shows a category of 100 items.
require "erb"
require "sinatra/base"

RNG = Random.new(1988)
CATALOGUE = Array.new(1000) do |category|
  Array.new(100) do |number|
    { id: [category, number], name: "item #{number} of category #{category}", price: RNG.rand * 100,
      tags: Array.new(4) { "tag#{RNG.rand(1000)}" }, stock: { here: RNG.rand(100), there: RNG.rand(100) } }
  end
end

class Shop < Sinatra::Base
  PAGE = <<~PAGE
    <html><h1>Category <%= number %></h1><table><% items.each do |item| %><tr><td><%= item[:name].capitalize %>
    <td><%= item[:price].round(2) %><td><%= tags(item[:tags]) %><td><%= item[:stock][:here] %></tr><% end %>
    </table></html>
  PAGE

  # Before Ruby 3.2, join and << write into the strings that they read, interpolation does not.
  if ENV["SHOP_TAGS"] == "interpolated"
    def tags(of) = "#{of[0]}, #{of[1]}, #{of[2]}, #{of[3]}"
  else
    def tags(of) = of.join(", ")
  end

  get "/:number" do
    number = Integer(params[:number])
    erb PAGE, locals: { number: number, items: CATALOGUE[number].select { |item| item[:stock][:here] >= 80 } }
  end
end

run Shop
